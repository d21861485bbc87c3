//! Certificates that Headgate makes for itself.
//!
//! Each has an authority of its own, whose key is thrown away at once: there is nothing to be stolen that could sign
//! anything else, and no authority that outlives its one certificate.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Clocks of others may be late.
const BACKDATED: Duration = Duration::from_secs(3600);

/// A certificate with its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The certificate, and then that of its authority.
    pub chain: String,
    /// The private key (PKCS #8).
    pub key: String,
}

/// Makes a certificate for a server with these names and addresses.
///
/// # Errors
/// If a name cannot be in a certificate.
pub fn issue(names: &[String], from: SystemTime, lifetime: Duration) -> Result<Issued, rcgen::Error> {
    let (not_before, not_after) = ((from - BACKDATED).into(), (from + lifetime).into());
    let made = from.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());

    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    // A name of its own: two authorities of one name are hard to tell apart for a client that trusts both.
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

/// The last certificate of a chain: its authority.
pub fn authority(chain: &str) -> Option<&str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    chain.rfind(BEGIN).map(|at| &chain[at..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serving::tls;

    #[test]
    fn what_is_made_can_be_served_and_carries_its_authority() {
        let names = ["headgate-webhook.shop.svc".to_owned(), "127.0.0.1".to_owned()];
        let issued = issue(&names, SystemTime::now(), Duration::from_secs(60)).unwrap();
        tls::certified(issued.chain.as_bytes(), issued.key.as_bytes()).unwrap();
        let authority = authority(&issued.chain).unwrap();
        assert!(issued.chain.len() > authority.len() && issued.chain.ends_with(authority));
        assert_eq!(authority.matches("BEGIN CERTIFICATE").count(), 1);
        assert_eq!(super::authority("nothing"), None);
    }

    #[test]
    fn a_name_that_cannot_be_is_refused() {
        assert!(issue(&["ä".to_owned()], SystemTime::now(), Duration::from_secs(60)).is_err());
    }
}
