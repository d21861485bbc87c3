//! The real Prometheus and promtool, from the Debian package `prometheus`, which is unpacked but not installed.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Instant,
};

use localstack_world::debian;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    sync::watch,
};

use crate::{http, wait};

/// A program of the package, by its name.
async fn program(name: &str) -> PathBuf {
    let folder = debian::unpacked("prometheus", &[], &|said| eprintln!("{said}")).await.unwrap();
    folder.join("usr/bin").join(name)
}

/// Runs promtool with these arguments in a folder.
///
/// # Errors Its output, if it fails.
pub async fn promtool(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program("promtool").await);
    let output = command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().await.unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).join("");
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// A fixed address whose server can change, so that Prometheus reads one replica after the other.
pub struct Place {
    address: SocketAddr,
    to: watch::Sender<Option<String>>,
}

impl Place {
    /// An address on loopback without a server.
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (to, leads) = watch::channel(None::<String>);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut leads = leads.clone();
                let Some(upstream) = leads.borrow_and_update().clone() else { continue };
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = leads.changed() => {}
                    }
                });
            }
        });
        Self { address, to }
    }

    /// The address that Prometheus reads.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the server behind the address. `None`: no server.
    pub fn leads_to(&self, address: Option<&str>) {
        self.to.send_replace(address.map(str::to_owned));
    }
}

/// An alert that is pending or fires.
#[derive(Clone, Debug)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// Whether it fires.
    pub fires: bool,
    /// Its labels.
    pub labels: Value,
    /// Its annotations.
    pub annotations: Value,
}

/// A running Prometheus. Its drop kills the process.
pub struct Prometheus {
    _child: Child,
    address: String,
}

impl Prometheus {
    /// Starts one with its data in a folder and these rules. It reads these replicas, each with the name of its pod, at
    /// an interval in milliseconds.
    pub async fn start(folder: &Path, rules: &Value, replicas: &[(&str, SocketAddr)], period: u32) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("rules.json"), rules.to_string()).unwrap();
        let period = format!("{period}ms");
        let asked = replicas.iter().map(|(pod, address)| {
            json!({"targets": [address.to_string()], "labels": {"pod": pod, "namespace": "headgate"}})
        });
        let config = json!({
            "global": {"scrape_interval": period, "scrape_timeout": period, "evaluation_interval": period},
            "rule_files": ["rules.json"],
            // The same as in the chart's PodMonitor.
            "scrape_configs": [{
                "job_name": "headgate", "honor_labels": true, "static_configs": asked.collect::<Vec<_>>(),
            }],
        });
        // JSON is valid YAML.
        std::fs::write(folder.join("prometheus.yml"), config.to_string()).unwrap();
        let mut child = Command::new(program("prometheus").await)
            .args([
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--web.listen-address=127.0.0.1:0",
            ])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (heard, said) = watch::channel(None::<String>);
        let log = folder.join("prometheus.log");
        tokio::spawn(async move {
            let mut all = String::new();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some((_, address)) = line.split_once("msg=\"Listening on\" address=") {
                    heard.send_replace(Some(address.trim().to_owned()));
                }
                all += &line;
                all.push('\n');
                let _ = std::fs::write(&log, &all);
            }
        });
        let address = wait::until("prometheus says where it listens", || async {
            said.borrow().clone().ok_or("it said nothing yet")
        })
        .await;
        let prometheus = Self { _child: child, address };
        wait::until("prometheus is ready", || async {
            match http::request("GET", &prometheus.address, "/-/ready", None).await? {
                (200, _) => Ok(()),
                (status, text) => Err(format!("{status} {text}")),
            }
        })
        .await;
        prometheus
    }

    /// The current samples of a query.
    ///
    /// # Errors The error of Prometheus.
    pub async fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let path = format!("/api/v1/query?query={}", encoded(expression));
        let (status, text) = http::request("GET", &self.address, &path, None).await?;
        let answer: Value =
            serde_json::from_str(&text).map_err(|error| format!("{status} {text}: {error}"))?;
        let result = answer["data"]["result"].as_array().cloned();
        result.filter(|_| status == 200).ok_or_else(|| format!("{expression}: {status} {text}"))
    }

    /// The alerts that are pending or fire.
    pub async fn alerts(&self) -> Vec<Alert> {
        let answer = http::json("GET", &self.address, "/api/v1/alerts", None).await;
        let alert = |alert: &Value| Alert {
            name: alert["labels"]["alertname"].as_str().unwrap().to_owned(),
            fires: alert["state"] == "firing",
            labels: alert["labels"].clone(),
            annotations: alert["annotations"].clone(),
        };
        answer["data"]["alerts"].as_array().unwrap().iter().map(alert).collect()
    }

    /// The alerts that have fired since then, by name and reason.
    pub async fn fired_since(&self, began: Instant) -> BTreeSet<(String, String)> {
        let past = began.elapsed().as_millis();
        let fired = self.query(&format!("max_over_time(ALERTS{{alertstate=\"firing\"}}[{past}ms])")).await;
        let word =
            |sample: &Value, label: &str| sample["metric"][label].as_str().unwrap_or_default().to_owned();
        fired.unwrap().iter().map(|sample| (word(sample, "alertname"), word(sample, "reason"))).collect()
    }
}

/// Encodes a text for the query of a URL.
fn encoded(text: &str) -> String {
    use std::fmt::Write;
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").unwrap();
        }
    }
    encoded
}
