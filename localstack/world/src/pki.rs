//! The keys and certificates of a local cluster. A local cluster has one authority, one serving certificate for all
//! HTTPS servers, and one client certificate per user. A further key signs ServiceAccount tokens.
//!
//! The keys are created with each local cluster and deleted with the cluster. Do not use the keys outside of the
//! cluster, because every user with read access to the cluster's folder is an administrator of the cluster.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// The identity in a client certificate. Kubernetes reads the user from the common name, and the groups from the
/// organizations.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// A group of the user, in addition to `system:authenticated`.
    pub group: Option<&'a str>,
}

/// The group that has all permissions without RBAC rules.
pub const MASTERS: &str = "system:masters";

/// A private key and its certificate in PEM format.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS #8).
    pub key: String,
}

/// The certificate authority of a local cluster.
#[derive(Debug)]
pub struct Pki {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// Creates a new certificate authority.
    pub fn generate() -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "headgate-world");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = parameters.self_signed(&key)?;
        Ok(Self { certificate, issuer: Issuer::new(parameters, key) })
    }

    /// Returns the certificate of the authority in PEM format.
    pub fn authority(&self) -> String {
        self.certificate.pem()
    }

    /// Creates a certificate for servers at this IP address. The certificate also contains the names of the Kubernetes
    /// API.
    pub fn serving(&self, ip: Ipv4Addr) -> Result<Credential, PkiError> {
        let mut parameters = CertificateParams::new([
            "localhost".to_owned(),
            "kubernetes".to_owned(),
            "kubernetes.default".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ])?;
        let addresses = [ip, Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 96, 0, 1)];
        let addresses = addresses.map(|address| SanType::IpAddress(IpAddr::V4(address)));
        parameters.subject_alt_names.extend(addresses);
        parameters.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        self.sign(parameters, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Creates a certificate for a client of the API server.
    pub fn client(&self, identity: Identity<'_>) -> Result<Credential, PkiError> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, identity.user);
        if let Some(group) = identity.group {
            parameters.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign(parameters, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut parameters: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Credential, PkiError> {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?;
        Ok(Credential { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Writes the files of the servers: `ca.crt`, `serving.{crt,key}`, `service-account.{key,pub}`.
    pub fn write(&self, folder: &Path, ip: Ipv4Addr) -> Result<(), PkiError> {
        let serving = self.serving(ip)?;
        let tokens = KeyPair::generate()?;
        write_private(&folder.join("ca.crt"), &self.authority())?;
        write_private(&folder.join("serving.crt"), &serving.certificate)?;
        write_private(&folder.join("serving.key"), &serving.key)?;
        write_private(&folder.join("service-account.key"), &tokens.serialize_pem())?;
        write_private(&folder.join("service-account.pub"), &tokens.public_key_pem())
    }
}

/// Writes a file that only the owner can read.
pub fn write_private(path: &Path, content: &str) -> Result<(), PkiError> {
    let write = || {
        let mut file = fs::File::options().create(true).write(true).truncate(true).mode(0o600).open(path)?;
        io::Write::write_all(&mut file, content.as_bytes())
    };
    write().map_err(|source| PkiError::Write { path: path.to_path_buf(), source })
}

/// The reason why keys or certificates could not be created.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The library returned an error.
    #[error("cannot make a certificate for the world: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A file could not be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn private_keys_can_be_read_by_their_owner_only() {
        let folder = scratch_folder();
        Pki::generate().unwrap().write(folder.path(), Ipv4Addr::LOCALHOST).unwrap();
        for name in ["serving.key", "service-account.key"] {
            let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        for name in ["ca.crt", "serving.crt", "service-account.pub"] {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(text.starts_with("-----BEGIN "), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let folder = scratch_folder();
        let missing = folder.path().join("missing");
        let error = Pki::generate().unwrap().write(&missing, Ipv4Addr::LOCALHOST).unwrap_err().to_string();
        assert!(error.contains("missing/ca.crt"), "{error}");
    }
}
