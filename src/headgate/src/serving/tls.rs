//! The served certificate, which can change while connections remain open.

use std::sync::Arc;

use rustls::{
    ServerConfig,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert},
    sign::CertifiedKey,
};
use thiserror::Error;
use tokio::sync::watch;

/// The served certificate. `None`: there is no certificate yet.
pub type Served = Option<Arc<CertifiedKey>>;

/// The reason why a certificate cannot be served.
#[derive(Debug, Error)]
pub enum BadCertificate {
    /// The certificate or the key is invalid.
    #[error("cannot read {what} ({error}). Use PEM")]
    Unreadable {
        /// The invalid part: the certificate or the key.
        what: &'static str,
        /// The error.
        error: rustls::pki_types::pem::Error,
    },
    /// The certificate and the key do not match, or have an unsupported type.
    #[error(
        "cannot serve the certificate and the key ({0}). Use a certificate chain and the key of its first \
         certificate"
    )]
    Unfit(#[from] rustls::Error),
}

/// Parses a certificate chain and its key, both as PEM.
///
/// # Errors
/// The error states what to set.
pub fn certified(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, BadCertificate> {
    let unreadable = |what| move |error| BadCertificate::Unreadable { what, error };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(unreadable("the certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(unreadable("the key"))?;
    Ok(CertifiedKey::from_der(chain, key, &default_provider())?)
}

#[derive(Debug)]
struct Current(watch::Receiver<Served>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().clone()
    }
}

/// Creates a TLS configuration that serves the present certificate.
///
/// # Errors
/// The built-in provider never causes an error.
pub fn configuration(served: watch::Receiver<Served>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Current(served)));
    // API servers do not resume TLS sessions. Session tickets would only cost time and memory, also for malicious
    // clients.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
