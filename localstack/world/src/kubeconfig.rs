//! Builds kubeconfig files with embedded credentials, so that a copy of the file works in any folder.
//!
//! The module is pure. [`crate::pki::write_private`] writes the files.

use std::net::SocketAddr;

use k8s_openapi::ByteString;

use crate::pki::Credential;

/// Returns a kubeconfig for the API server at this address. `world` is the name of the cluster and of the context.
pub fn kubeconfig(world: &str, api_server: SocketAddr, authority: &str, user: &Credential) -> String {
    let authority = base64(authority);
    let certificate = base64(&user.certificate);
    let key = base64(&user.key);
    format!(
        "\
apiVersion: v1
kind: Config
current-context: {world}
clusters:
- name: {world}
  cluster:
    server: https://{api_server}
    certificate-authority-data: {authority}
contexts:
- name: {world}
  context:
    cluster: {world}
    user: {world}
users:
- name: {world}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
"
    )
}

fn base64(text: &str) -> String {
    // `ByteString` is the type of Kubernetes for bytes in JSON, which is a base64 string.
    match serde_json::to_value(ByteString(text.as_bytes().to_vec())) {
        Ok(serde_json::Value::String(encoded)) => encoded,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;
    use crate::pki::{Identity, MASTERS, Pki};

    #[test]
    fn a_kubeconfig_is_complete_and_can_be_read_by_kubernetes_clients() {
        let pki = Pki::generate().unwrap();
        let admin = pki.client(Identity { user: "admin", group: Some(MASTERS) }).unwrap();
        let address = "127.101.192.1:6443".parse().unwrap();
        let read = Kubeconfig::from_yaml(&kubeconfig("blue", address, &pki.authority(), &admin)).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("blue"));
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.101.192.1:6443"));
        assert_eq!(cluster.certificate_authority_data, Some(base64(&pki.authority())));
        let user = read.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.client_certificate_data, Some(base64(&admin.certificate)));
        assert!(user.client_key_data.is_some());
    }

    #[test]
    fn text_is_encoded_as_base64() {
        assert_eq!(base64("headgate"), "aGVhZGdhdGU=");
    }
}
