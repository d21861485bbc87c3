//! `headgate ui`: opens the page in a browser, through ports that the API server forwards to the leader with the user's own
//! rights. Each connection of the browser gets one of its own, to whoever leads then.

use std::{
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
    sync::Arc,
};

use anyhow::Context;
use headgate::{kube::words::plain_chain, runtime::clock::Clock, serving::seldom::Seldom};
use kube::Client;
use tokio::{io::copy_bidirectional, net::TcpListener, process::Command};

use crate::explain::reach::Way;

/// What `headgate ui` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where Headgate is.
    pub way: Way,
    /// The local port; 0: one that is free.
    pub port: u16,
    /// Whether to open a browser.
    pub browser: bool,
}

/// Serves the page on loopback until Ctrl-C, and says on `out` where.
///
/// # Errors
/// If nobody leads, or the port cannot be had.
pub async fn ui(options: Options, out: &mut impl Write) -> anyhow::Result<()> {
    if let Some(address) = options.way.address {
        // Whoever named it has a way there.
        options.way.ask(None, "/debug/leader").await?;
        return show(address, options.browser, out);
    }
    let client =
        options.way.cluster().await?.context("no Kubernetes configuration; expected one, or --address")?;
    // Said now, and not in the browser, if there is no way.
    options.way.ask(Some(&client), "/debug/leader").await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.with_context(|| {
        format!("cannot listen on port {} of loopback; expected a free one in --port", options.port)
    })?;
    show(listener.local_addr()?, options.browser, out)?;
    let ended = tokio::signal::ctrl_c();
    tokio::select! {
        ended = ended => Ok(ended?),
        () = forward(listener, Arc::new(options.way), client) => Ok(()),
    }
}

fn show(address: SocketAddr, browser: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let url = format!("http://{address}/");
    writeln!(out, "Headgate's page is at {url}")?;
    if browser && let Err(error) = open(&url) {
        writeln!(out, "no browser could be opened ({error}); open that address in one")?;
    }
    out.flush()?;
    Ok(())
}

/// As the desktop does it.
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

async fn forward(listener: TcpListener, way: Arc<Way>, client: Client) {
    let (failed, clock) = (Arc::new(Seldom::default()), Clock::start());
    loop {
        let Ok((mut browser, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let (way, client, failed) = (way.clone(), client.clone(), failed.clone());
        tokio::spawn(async move {
            let forwarded = async {
                let mut headgate = way.connect(&client).await?;
                // Whoever closes first closes both.
                let _ = copy_bidirectional(&mut browser, &mut headgate).await;
                anyhow::Ok(())
            };
            if let Err(error) = Box::pin(forwarded).await
                && let Some(left_out) = failed.say(clock.now())
            {
                let more = if left_out > 0 { format!(" ({left_out} more like this)") } else { String::new() };
                eprintln!("headgate: {}{more}", plain_chain(&error));
            }
        });
    }
}
