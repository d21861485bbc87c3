//! The served certificate, which can change while connections continue.

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

/// The certificate that is served; none until there is one.
pub type Served = Option<Arc<CertifiedKey>>;

/// Why a certificate cannot be served.
#[derive(Debug, Error)]
pub enum BadCertificate {
    /// The certificate or the key.
    #[error("{what} cannot be read ({error}); expected PEM")]
    Unreadable {
        /// Which.
        what: &'static str,
        /// Why.
        error: rustls::pki_types::pem::Error,
    },
    /// They do not belong together, or are of a kind that is not served.
    #[error(
        "the certificate and the key cannot be served ({0}); expected a certificate chain and the key of its first"
    )]
    Unfit(#[from] rustls::Error),
}

/// Reads a certificate chain and its key, both PEM.
///
/// # Errors
/// Returns what to set.
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

/// Serves the present certificate.
///
/// # Errors
/// Never, with the provider that is built in.
pub fn configuration(served: watch::Receiver<Served>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Current(served)));
    // The API server resumes no session: tickets would only cost time and memory, also for clients that mean no good.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
