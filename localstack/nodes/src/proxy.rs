//! The only kube-proxy of the local cluster. All nodes share the same network, so one kube-proxy writes the rules for
//! all nodes.

use std::{fs::File, io, process::Stdio};

use tokio::process::Child;

use crate::{config, layout::Layout, tied};

/// Starts kube-proxy. kube-proxy is killed when this process exits.
///
/// # Errors
/// The configuration or the log cannot be written, or kube-proxy cannot be started.
pub fn start(layout: &Layout) -> io::Result<Child> {
    let config = layout.folder.join("kube-proxy.yaml");
    std::fs::write(&config, config::proxy(layout).to_string())?;
    let log = File::options().create(true).append(true).open(layout.logs.join("kube-proxy.log"))?;
    tied::command(&layout.programs.join("kube-proxy"))
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}
