//! `headgate ui`.

use clap::Args;

use super::explain::Way;
use crate::ui::Options;

/// The arguments.
#[derive(Debug, Args)]
pub struct Ui {
    /// Local port of the page. 0: a free port.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// Print the address and do not open a browser.
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    way: Way,
}

impl Ui {
    pub fn options(self) -> Options {
        Options { way: self.way.way(), port: self.port, browser: !self.no_browser }
    }
}
