//! Issues and reads certificates for the webhook.
//!
//! Each certificate has its own CA, whose key Headgate discards immediately. Therefore, no stored key can sign
//! certificates, and no CA outlives its only certificate.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    client::verify_server_name,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    server::ParsedCertificate,
};

use crate::serving::{
    tls,
    validity::{self, Life},
};

/// The validity of each certificate starts this long before its creation, because other clocks may be behind.
const BACKDATED: Duration = Duration::from_secs(3600);
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";

/// A certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The certificate, followed by the certificate of its CA.
    pub chain: String,
    /// The private key (PKCS #8).
    pub key: String,
}

impl Issued {
    /// The CA certificate, which the API server must trust.
    pub fn authority(&self) -> &str {
        self.chain.rfind(BEGIN).map_or(&*self.chain, |at| &self.chain[at..])
    }
}

/// A certificate, with the properties that determine its renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate and its key.
    pub issued: Issued,
    /// The validity period of the certificate.
    pub life: Life,
    /// Whether the certificate contains the names that the API server uses.
    pub fits: bool,
}

/// Issues a certificate for a server with these names and addresses.
///
/// # Errors
/// A name is not valid in a certificate.
pub fn issue(names: &[String], from: SystemTime, lifetime: Duration) -> Result<Issued, rcgen::Error> {
    let (not_before, not_after) = ((from - BACKDATED).into(), (from + lifetime).into());
    let made = from.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis());

    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    // The CA has a unique name, because clients may confuse two CAs with the same name.
    authority.distinguished_name.push(DnType::CommonName, format!("headgate webhook authority {made}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    (authority.not_before, authority.not_after) = (not_before, not_after);
    let authority_certificate = authority.self_signed(&authority_key)?;

    let key = KeyPair::generate()?;
    let mut serving = CertificateParams::new(names)?;
    serving.distinguished_name.push(DnType::CommonName, "headgate webhook");
    serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    serving.use_authority_key_identifier_extension = true;
    (serving.not_before, serving.not_after) = (not_before, not_after);
    let certificate = serving.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok(Issued {
        chain: format!("{}{}", certificate.pem(), authority_certificate.pem()),
        key: key.serialize_pem(),
    })
}

impl Certificate {
    /// Parses a certificate. `None`: the certificate cannot be served, or its chain does not contain the CA.
    pub fn read(issued: Issued, names: &[String]) -> Option<Self> {
        let certified = tls::certified(issued.chain.as_bytes(), issued.key.as_bytes()).ok()?;
        let [leaf, _, ..] = &certified.cert[..] else { return None };
        let parsed = ParsedCertificate::try_from(leaf).ok()?;
        let fits = names.iter().all(|name| {
            ServerName::try_from(name.as_str()).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
        });
        let Life { from, until } = validity::life(leaf)?;
        // The validity starts before the certificate's creation.
        let from = from.saturating_add(i64::try_from(BACKDATED.as_secs()).unwrap_or_default());
        Some(Self { life: Life { from, until }, fits, issued })
    }

    /// The CA certificate.
    pub fn authority(&self) -> &str {
        self.issued.authority()
    }
}

/// The certificates in a PEM text, without changes. The function drops other content.
pub fn authorities(bundle: &str) -> Vec<String> {
    let parts = bundle.split(BEGIN).skip(1).map(|rest| format!("{BEGIN}{rest}"));
    let is = |part: &String| {
        CertificateDer::from_pem_slice(part.as_bytes()).is_ok_and(|der| validity::life(&der).is_some())
    };
    parts.filter(is).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_can_be_served_carries_its_authority_and_says_how_long_it_lives() {
        let names = ["headgate-webhook.shop.svc".to_owned(), "127.0.0.1".to_owned()];
        let now = SystemTime::now();
        let issued = issue(&names, now, Duration::from_secs(60)).unwrap();
        let certificate = Certificate::read(issued.clone(), &names).unwrap();
        assert!(certificate.fits);
        let now = i64::try_from(now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()).unwrap();
        assert_eq!(certificate.life, Life { from: now, until: now + 60 });
        let authority = certificate.authority();
        assert!(issued.chain.len() > authority.len() && issued.chain.ends_with(authority));
        assert_eq!(authorities(&format!("{BEGIN}no{}", issued.chain))[1], authority);
        assert_eq!(authorities("nothing"), [""; 0]);
        assert!(!Certificate::read(issued.clone(), &["other.svc".to_owned()]).unwrap().fits);

        let other = issue(&names, SystemTime::now(), Duration::from_secs(60)).unwrap();
        let mixed = Issued { key: other.key, ..issued.clone() };
        assert_eq!(Certificate::read(mixed, &names), None, "the key is another certificate's");
        let alone = Issued { chain: authorities(&issued.chain).swap_remove(0), ..issued };
        assert_eq!(Certificate::read(alone, &names), None, "nobody could trust it");
    }

    #[test]
    fn a_name_that_cannot_be_is_refused() {
        assert!(issue(&["ä".to_owned()], SystemTime::now(), Duration::from_secs(60)).is_err());
    }
}
