//! `headgate-hold`: sleeps for a container's hold, and then runs the container's own `preStop` hook.
//!
//! ```text
//! headgate-hold SECONDS run COMMAND [ARGUMENT ...]
//! headgate-hold SECONDS get [HOST]:PORT PATH ['NAME: VALUE' ...]
//! ```
//!
//! The webhook sets this program as the `preStop` hook of a container. The pod must request it
//! (`headgate.dev/own-prestop: wrap`), and the container must have no suitable shell.
//!
//! The program is mounted from Headgate's image and must run in any container. The program is static, and needs no
//! file, no DNS server, no permission and little memory. The kubelet gets the same result as from the original hook.
//! `run` replaces the process with the hook's command. `get` succeeds with any HTTP answer, as the kubelet's own
//! request does.

mod request;

use std::{
    ffi::OsString,
    fmt::Display,
    io::{self, ErrorKind},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use request::Request;

const USAGE: &str = "usage: headgate-hold SECONDS run COMMAND [ARGUMENT ...] or headgate-hold SECONDS get \
                     [HOST]:PORT PATH ['NAME: VALUE' ...]";

/// The hook that runs after the hold.
#[derive(Debug)]
enum Then {
    Run(OsString, Vec<OsString>),
    Get(Request),
}

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).collect();
    let (seconds, then) = match read(arguments) {
        Ok(read) => read,
        Err(wrong) => return fail(&format!("{wrong}; {USAGE}"), 2),
    };
    thread::sleep(Duration::from_secs(seconds.into()));
    match then {
        Then::Run(program, arguments) => {
            let error = Command::new(&program).args(arguments).exec();
            fail(&format!("cannot run {}: {error}", program.display()), code_of(&error))
        }
        Then::Get(request) => match request.send() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, 1),
        },
    }
}

/// Returns the exit code that a shell returns if it cannot run a command.
fn code_of(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
}

fn fail(message: &impl Display, code: u8) -> ExitCode {
    eprintln!("headgate-hold: {message}");
    code.into()
}

fn read(arguments: Vec<OsString>) -> Result<(u32, Then), String> {
    let mut arguments = arguments.into_iter();
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("{what} is missing"));
    let seconds = text(next("the number of seconds")?)?;
    let seconds = seconds.parse().map_err(|_| format!("{seconds:?} is not a number of seconds"))?;
    let then = match text(next("run or get")?)?.as_str() {
        "run" => {
            let program = next("the command")?;
            Then::Run(program, arguments.collect())
        }
        "get" => {
            let to = text(next("the host and port of the request")?)?;
            let path = text(next("the path of the request")?)?;
            let headers = arguments.map(text).collect::<Result<_, _>>()?;
            Then::Get(Request::read(&to, path, headers)?)
        }
        other => return Err(format!("{other:?} is neither run nor get")),
    };
    Ok((seconds, then))
}

fn text(argument: OsString) -> Result<String, String> {
    argument.into_string().map_err(|argument| format!("{} is not valid text", argument.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Result<(u32, Then), String> {
        read(arguments.iter().map(OsString::from).collect())
    }

    #[test]
    fn what_is_done_after_the_hold_is_read_as_it_stands() {
        let (seconds, Then::Run(program, rest)) = of(&["150", "run", "nginx", "-s", "quit"]).unwrap() else {
            panic!("expected a command");
        };
        assert_eq!((seconds, program, rest), (150, "nginx".into(), vec!["-s".into(), "quit".into()]));
        assert!(matches!(of(&["0", "get", ":80", "/stop", "X-By: me"]).unwrap(), (0, Then::Get(_))));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (arguments, said) in [
            (&[][..], "the number of seconds is missing"),
            (&["-1", "run", "x"], "\"-1\" is not a number of seconds"),
            (&["150s", "run", "x"], "\"150s\" is not a number of seconds"),
            (&["150"], "run or get is missing"),
            (&["150", "nginx"], "\"nginx\" is neither run nor get"),
            (&["150", "run"], "the command is missing"),
            (&["150", "get"], "the host and port of the request is missing"),
            (&["150", "get", ":80"], "the path of the request is missing"),
            (&["150", "get", "80", "/"], "\"80\" is not a host and port"),
        ] {
            let wrong = of(arguments).unwrap_err();
            assert!(wrong.contains(said), "{wrong}");
        }
    }
}
