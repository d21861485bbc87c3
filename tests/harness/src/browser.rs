//! A real browser: headless Chromium from its Debian package, controlled with the Chrome DevTools Protocol over its
//! pipe.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use localstack_world::debian;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::oneshot,
    time::timeout,
};

use crate::wait;

/// How long one answer of the browser may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Chromium uses the file descriptors 3 and 4.
const THROUGH_ITS_PIPE: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";

type Answers = Arc<Mutex<BTreeMap<u64, oneshot::Sender<Value>>>>;

/// A browser with one page. It ends when this is dropped.
pub struct Browser {
    _child: Child,
    profile: PathBuf,
    to: tokio::sync::Mutex<ChildStdin>,
    next: AtomicU64,
    answers: Answers,
    /// The messages and errors of the page's console.
    console: Arc<Mutex<Vec<String>>>,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

impl Browser {
    /// Starts the browser. Downloads it first if necessary.
    pub async fn start() -> Self {
        let unpacked =
            debian::unpacked_with_needs(&["chromium", "fonts-dejavu-core"], &|said| eprintln!("{said}"))
                .await;
        let (program, libraries) = match unpacked.unwrap() {
            None => (PathBuf::from("chromium"), String::new()),
            Some(folder) => (folder.join("usr/lib/chromium/chromium"), debian::libraries(&folder)),
        };
        let profile =
            std::env::temp_dir().join(format!("headgate-browser-{}-{:x}", std::process::id(), fresh()));
        let mut command = Command::new("sh");
        command.args(["-c", THROUGH_ITS_PIPE]).arg(&program);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]);
        command.args(["--disable-background-networking", "--remote-debugging-pipe", "about:blank"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        if !libraries.is_empty() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("sh runs");
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (answers, console) = (Answers::default(), Arc::<Mutex<Vec<String>>>::default());
        tokio::spawn(listen(from, answers.clone(), console.clone()));
        let mut browser = Self {
            _child: child,
            profile,
            to: tokio::sync::Mutex::new(to),
            next: AtomicU64::new(1),
            answers,
            console,
            session: String::new(),
        };
        let made = browser.call("Target.createTarget", json!({ "url": "about:blank" })).await;
        let attached = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attached).await;
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser
    }

    /// Calls a method of the protocol.
    pub async fn call(&self, method: &str, parameters: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let (answer, answered) = oneshot::channel();
        self.answers.lock().unwrap().insert(id, answer);
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.to.lock().await.write_all(&bytes).await.expect("the browser runs");
        let answered = timeout(PATIENCE, answered).await;
        let answer = answered.unwrap_or_else(|_| panic!("no answer to {method}")).expect("the browser runs");
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Opens an address.
    pub async fn open(&self, url: &str) {
        let opened = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
    }

    /// The result of a JavaScript expression, after its promise has resolved.
    pub async fn evaluate(&self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let done = self.call("Runtime.evaluate", asked).await;
        assert!(done.get("exceptionDetails").is_none(), "{expression}: {}", done["exceptionDetails"]);
        done["result"]["value"].clone()
    }

    /// The text of an element. Empty if there is none.
    pub async fn text(&self, selector: &str) -> String {
        let found = self.evaluate(&format!("document.querySelector({selector:?})?.innerText ?? ''")).await;
        found.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the text of an element meets a condition, and returns it.
    pub async fn wait_text(&self, selector: &str, is: impl Fn(&str) -> bool) -> String {
        wait::until(&format!("{selector} of the page says so"), || async {
            let text = self.text(selector).await;
            if is(&text) { Ok(text) } else { Err(text) }
        })
        .await
    }

    /// All messages and errors of the console so far.
    pub fn console(&self) -> Vec<String> {
        self.console.lock().unwrap().clone()
    }

    /// Sets the size of the page, whether it looks like a phone, and whether it prefers dark mode.
    pub async fn looks(&self, (width, height): (u32, u32), dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [scheme] })).await;
    }

    /// Saves a screenshot as a PNG file.
    pub async fn picture(&self, file: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        std::fs::write(file, base64(shot["data"].as_str().unwrap())).unwrap();
    }
}

async fn listen(from: tokio::process::ChildStdout, answers: Answers, console: Arc<Mutex<Vec<String>>>) {
    let mut from = BufReader::new(from);
    loop {
        let mut message = Vec::new();
        match from.read_until(0, &mut message).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
        message.pop();
        let Ok(message) = serde_json::from_slice::<Value>(&message) else { continue };
        if let Some(id) = message["id"].as_u64() {
            let waits = answers.lock().unwrap().remove(&id);
            if let Some(waits) = waits {
                let _ = waits.send(message);
            }
            continue;
        }
        let (method, parameters) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        if matches!(method, "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") {
            console.lock().unwrap().push(format!("{method}: {parameters}"));
        }
    }
}

fn fresh() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Decodes base64 (RFC 4648).
fn base64(text: &str) -> Vec<u8> {
    use k8s_openapi::ByteString;
    serde_json::from_value::<ByteString>(text.into()).unwrap().0
}

/// axe-core, the accessibility checker. It must be in `HEADGATE_AXE` if that is set, which it is in CI. Without it, the
/// function uses npm, if there is one.
pub async fn axe() -> Option<String> {
    if let Some(file) = std::env::var_os("HEADGATE_AXE") {
        return Some(
            std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("HEADGATE_AXE={}: {error}", file.display())),
        );
    }
    let folder = std::env::temp_dir().join(format!("headgate-axe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let pack = format!("cd '{}' && npm pack --silent {AXE} >/dev/null && tar -xzf *.tgz", folder.display());
    let done = Command::new("sh").args(["-c", &pack]).stderr(Stdio::null()).status().await;
    let text = done
        .is_ok_and(|status| status.success())
        .then(|| std::fs::read_to_string(folder.join("package/axe.min.js")));
    let _ = std::fs::remove_dir_all(&folder);
    let text = text.and_then(Result::ok);
    if text.is_none() {
        eprintln!("no axe-core, and no npm that fetches it: accessibility is not looked at");
    }
    text
}

/// The npm package.
const AXE: &str = "axe-core@4.10.3";
