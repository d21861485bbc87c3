//! `headgate ui`: opens the page in a browser. The API server forwards each connection of the browser to the current
//! leader, with the user's own permissions. Other users of the machine have no access to the page ([`door`]).

mod door;

use std::{io::Write, net::Ipv4Addr, process::Stdio, sync::Arc, time::Duration};

use anyhow::Context;
use headgate::{kube::words::plain_chain, runtime::clock::Clock, serving::seldom::Seldom};
use headgate_core::model::excerpt::shown;
use kube::Client;
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    process::Command,
    time::timeout,
};

use self::door::{Door, Knock};
use crate::explain::reach::Way;

/// The timeout for the first request of a connection.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Options {
    /// How to connect to Headgate.
    pub way: Way,
    /// The local port. 0: a free port.
    pub port: u16,
    /// Whether to open a browser.
    pub browser: bool,
}

/// Serves the page on loopback until Ctrl-C, and prints the page's address on `out`.
///
/// # Errors
/// No replica is the leader, or the port is not available.
pub async fn ui(options: Options, out: &mut impl Write) -> anyhow::Result<()> {
    if let Some(address) = options.way.address {
        // The user set an address, so the command needs no cluster.
        options.way.ask(None, "/debug/leader").await?;
        return show(&format!("http://{address}/"), options.browser, out);
    }
    let client =
        options.way.cluster().await?.context("no Kubernetes configuration. Set --kubeconfig or --address")?;
    // If Headgate is not reachable, the command fails here and not later in the browser.
    options.way.ask(Some(&client), "/debug/leader").await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.with_context(|| {
        format!("cannot listen on port {} of loopback. Set --port to a free one", options.port)
    })?;
    let address = listener.local_addr()?;
    let door = Arc::new(Door::new(address.port())?);
    show(&format!("http://{address}/{}", door.query()), options.browser, out)?;
    let ended = tokio::signal::ctrl_c();
    tokio::select! {
        ended = ended => Ok(ended?),
        () = forward(listener, door, Arc::new(options.way), client) => Ok(()),
    }
}

fn show(url: &str, browser: bool, out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "Headgate's page is at {url}")?;
    if browser && let Err(error) = open(url) {
        writeln!(out, "cannot open a browser ({error}). Open that address in one")?;
    }
    out.flush()?;
    Ok(())
}

/// Opens a URL in the default browser of the desktop.
fn open(url: &str) -> std::io::Result<()> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    quiet.map(|_| ())
}

/// Checks whether the browser may connect. Returns the bytes that the function has already read, or answers the request
/// and returns `None`.
async fn enters(browser: &mut TcpStream, door: &Door) -> Option<Vec<u8>> {
    let head = timeout(PATIENCE, door::head(browser)).await.ok()?.ok()??;
    match door.knock(&String::from_utf8_lossy(&head)) {
        Knock::Enters => Some(head),
        Knock::Answered(answer) => {
            let _ = browser.write_all(answer.as_bytes()).await;
            let _ = browser.shutdown().await;
            None
        }
    }
}

async fn forward(listener: TcpListener, door: Arc<Door>, way: Arc<Way>, client: Client) {
    let (failed, clock) = (Arc::new(Seldom::default()), Clock::start());
    loop {
        let Ok((mut browser, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (door, way, client, failed) = (door.clone(), way.clone(), client.clone(), failed.clone());
        tokio::spawn(async move {
            let Some(head) = enters(&mut browser, &door).await else { return };
            let forwarded = async {
                let mut headgate = way.connect(&client).await?;
                headgate.write_all(&head).await?;
                // If one side closes the connection, the other side is closed too.
                let _ = copy_bidirectional(&mut browser, &mut headgate).await;
                anyhow::Ok(())
            };
            if let Err(error) = Box::pin(forwarded).await
                && let Some(left_out) = failed.say(clock.now())
            {
                let more = if left_out > 0 { format!(" ({left_out} more like this)") } else { String::new() };
                eprintln!("headgate: {}{more}", shown(&plain_chain(&error)));
            }
        });
    }
}
