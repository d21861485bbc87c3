//! The page in a real browser. It shows AWS's data live, also with a keyboard, a phone or a screen reader, and only to
//! authorized users.

use std::{collections::BTreeMap, path::Path};

use headgate_harness::{
    browser::{self, Browser},
    headgate::{Headgate, command},
    http::get_as,
    kubectl::Kubectl,
    root,
    scenario::Scenario,
    shared_world::beside_others,
    wait,
};
use serde_json::{Value, json};

/// The sizes of a desktop and a phone.
const DESK: (u32, u32) = (1280, 900);
const PHONE: (u32, u32) = (390, 844);

async fn opened(headgate: &Headgate) -> Browser {
    let browser = Browser::start().await;
    browser.looks(DESK, false).await;
    browser.open(&format!("http://{}/", headgate.debug())).await;
    browser.wait_text("#link", |text| text == "Live").await;
    browser
}

/// Sets the text of the filter, as if typed.
async fn filter(browser: &Browser, text: &str) {
    let typed = format!(
        "(() => {{ const box = document.querySelector('#filter'); box.value = {text:?}; \
         box.dispatchEvent(new Event('input')); }})()"
    );
    browser.evaluate(&typed).await;
}

/// The `href` of the focused element.
async fn focused(browser: &Browser) -> Value {
    browser.evaluate("document.activeElement.getAttribute('href')").await
}

/// The table of target groups: by zone, the wanted, serving, healthy, initial, unhealthy and draining targets.
type Table = BTreeMap<String, [u64; 6]>;

async fn table(browser: &Browser) -> Table {
    let script = "[...document.querySelectorAll('#view tbody tr')].map((row) => [...row.querySelectorAll('td')].map((cell) => cell.innerText))";
    let rows: Vec<Vec<String>> = serde_json::from_value(browser.evaluate(script).await).unwrap();
    let row = |cells: Vec<String>| {
        let figures: Vec<u64> = cells[1..7].iter().map(|cell| cell.parse().unwrap()).collect();
        (cells[0].clone(), figures.try_into().unwrap())
    };
    rows.into_iter().map(row).collect()
}

/// The same from `headgate status`.
async fn by_status(s: &Scenario, headgate: &Headgate) -> Table {
    let address = format!("--address={}", headgate.debug());
    let (code, said) = command(s.facts(), &["status", "-o=json", &address]).await;
    assert_eq!(code, Some(0), "{said}");
    let status: Value = serde_json::from_str(&said).unwrap();
    let zones = status["targetGroups"][0]["zones"].as_array().unwrap().iter();
    let figures = |zone: &Value| {
        let count = |of: &Value| of.as_u64().unwrap_or_default();
        let state = |word: &str| count(&zone["states"][word]);
        let own = [count(&zone["wanted"]), count(&zone["serving"])];
        [own[0], own[1], state("healthy"), state("initial"), state("unhealthy"), state("draining")]
    };
    zones.map(|zone| (zone["zone"].as_str().unwrap().to_owned(), figures(zone))).collect()
}

/// Waits until the page and `headgate status` show the same.
async fn wait_same(s: &Scenario, headgate: &Headgate, browser: &Browser) -> Table {
    wait::until("the page says what the status says", || async {
        let (before, shown, after) =
            (by_status(s, headgate).await, table(browser).await, by_status(s, headgate).await);
        if shown == before || shown == after {
            Ok(shown)
        } else {
            Err(format!("{shown:?}, and not {after:?}"))
        }
    })
    .await
}

fn sum(table: &Table, column: usize) -> u64 {
    table.values().map(|row| row[column]).sum()
}

/// With `HEADGATE_WRITE_DOCS`: writes the pictures of the docs.
async fn write_pictures(browser: &Browser) {
    if std::env::var_os("HEADGATE_WRITE_DOCS").is_none() {
        return;
    }
    let folder = root().join("docs/pictures");
    std::fs::create_dir_all(&folder).unwrap();
    let take = async |hash: &str, name: &str, dark: bool| {
        browser.looks((1100, 560), dark).await;
        browser.evaluate(&format!("location.hash = {hash:?}; document.activeElement.blur()")).await;
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        browser.picture(&folder.join(name)).await;
    };
    take("#/", "page-groups.png", false).await;
    let group = "document.querySelector('#view tbody a').getAttribute('href')";
    let group = browser.evaluate(group).await.as_str().unwrap().to_owned();
    take(&group, "page-targets.png", false).await;
    take("#/journal", "page-journal-dark.png", true).await;
}

/// With `HEADGATE_WRITE_DOCS`: writes the picture of the status as in a terminal.
async fn write_picture_of_status(s: &Scenario, headgate: &Headgate, browser: &Browser) {
    if std::env::var_os("HEADGATE_WRITE_DOCS").is_none() {
        return;
    }
    let (_, said) = command(s.facts(), &["status", &format!("--address={}", headgate.debug())]).await;
    let text = format!("$ headgate status\n{}", said.trim_end());
    browser.open("about:blank").await;
    browser.looks((1100, 300), true).await;
    let show = format!(
        "document.body.style = 'margin: 0; background: #16181d'; \
         const pre = document.createElement('pre'); \
         pre.style = 'margin: 16px; color: #e6e6e6; font: 13px/1.5 DejaVu Sans Mono; white-space: pre-wrap'; \
         pre.textContent = {}; document.body.replaceChildren(pre)",
        json!(text)
    );
    browser.evaluate(&show).await;
    browser.picture(&root().join("docs/pictures/status.png")).await;
}

#[test]
fn another_sites_page_can_neither_read_nor_frame_it() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "page-guard").await;
        let headgate = s.headgate().await;
        headgate.wait_leads().await;
        for path in ["/", "/debug/status", "/debug/live", "/page/app.js"] {
            let (status, headers) = get_as(headgate.debug(), path, "evil.example").await;
            assert_eq!(status, 403, "{path}");
            assert!(headers.contains("frame-ancestors 'none'"), "{headers}");
        }
        let (status, headers) = get_as(headgate.debug(), "/", "localhost:8081").await;
        assert_eq!(status, 200);
        for part in
            ["default-src 'none'", "script-src 'self'", "nosniff", "no-store", "text/html; charset=utf-8"]
        {
            assert!(headers.contains(part), "{part} is not in {headers}");
        }
        assert!(!headers.contains("access-control-allow"), "{headers}");
        assert!(Path::new(&root().join("src/headgate/page/app.js")).is_file());
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn a_roll_is_seen_as_it_happens_and_each_target_has_its_life() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "page").await;
            let group = s.web(3).await;
            let headgate = s.headgate().await;
            s.wait_registered(&group, "web", 3, 8080).await;
            let browser = opened(&headgate).await;
            browser.wait_text("#top", |text| text.starts_with("OK 1 target group, 3 of 3 wanted")).await;
            let quiet = wait_same(&s, &headgate, &browser).await;
            assert_eq!((sum(&quiet, 0), sum(&quiet, 2)), (3, 3), "{quiet:?}");

            let old = s.cluster.running("web").await;
            // The focused element keeps the focus while the table is redrawn.
            browser.evaluate("document.querySelector('#view tbody a').focus()").await;
            let group_link = focused(&browser).await;
            assert!(group_link.as_str().unwrap().starts_with("#/group/"), "{group_link}");
            let kubectl = Kubectl::new(s.facts(), &s.cluster.namespace);
            kubectl.run(&["rollout", "restart", "deployment/web"]).await;
            for (column, state) in [(3, "initial"), (5, "draining")] {
                wait::until(&format!("the page shows targets that are {state}"), || async {
                    let table = table(&browser).await;
                    if sum(&table, column) > 0 { Ok(()) } else { Err(table) }
                })
                .await;
            }
            wait::until("the roll is over", || async {
                let table = table(&browser).await;
                let is_new = s.cluster.running("web").await.keys().all(|pod| !old.contains_key(pod));
                if is_new && sum(&table, 2) == 3 && sum(&table, 3) + sum(&table, 5) == 0 {
                    Ok(())
                } else {
                    Err(table)
                }
            })
            .await;
            let quiet = wait_same(&s, &headgate, &browser).await;
            assert_eq!((sum(&quiet, 1), sum(&quiet, 2)), (3, 3), "{quiet:?}");
            assert_eq!(focused(&browser).await, group_link);

            // A paused page does not change until it is resumed.
            browser.evaluate("document.querySelector('#pause').click()").await;
            browser.wait_text("#link", |text| text == "Paused").await;
            s.cluster.scale("web", 4).await;
            wait::until("the status has a fourth target", || async {
                let table = by_status(&s, &headgate).await;
                if sum(&table, 0) == 4 { Ok(()) } else { Err(table) }
            })
            .await;
            assert_eq!(sum(&table(&browser).await, 0), 3, "the page is paused");
            browser.evaluate("document.querySelector('#pause').click()").await;
            browser.wait_text("#link", |text| text == "Live").await;
            s.cluster.scale("web", 3).await;
            let quiet = wait_same(&s, &headgate, &browser).await;
            assert_eq!(sum(&quiet, 0), 3, "{quiet:?}");

            // Through the links that people use: the group, a pod, and a deleted pod.
            browser.evaluate("document.querySelector('#view tbody a').click()").await;
            let new: Vec<String> = s.cluster.running("web").await.into_keys().collect();
            browser.wait_text("#view table", |text| new.iter().all(|pod| text.contains(pod))).await;
            let lives =
                browser.evaluate("document.querySelectorAll('#view svg.life rect.healthy').length").await;
            assert_eq!(lives, json!(3), "each target's life ends in green");
            browser.evaluate(&format!("document.querySelector('#view a[href$={:?}]').click()", new[0])).await;
            let said =
                browser.wait_text("#view", |text| text.contains("AWS accepted the registration")).await;
            assert!(said.contains("PodSelected") && said.contains("→ healthy"), "{said}");
            let gone = old.keys().next().unwrap();
            browser.evaluate(&format!("location.hash = '#/pod/{}/{gone}'", s.cluster.namespace)).await;
            let said = browser.wait_text("#view", |text| text.contains("the pod no longer exists")).await;
            assert!(
                said.contains("should be deregistered (PodTerminating)")
                    && said.contains("AWS accepted the deregistration"),
                "{said}"
            );

            browser.evaluate("location.hash = '#/journal'").await;
            browser.wait_text("#view", |text| text.contains(gone) && text.contains(&new[0])).await;
            filter(&browser, gone).await;
            let rows =
                browser.wait_text("#view", |text| text.contains(gone) && !text.contains(&new[0])).await;
            assert!(rows.contains("the pod no longer exists"), "{rows}");
            assert_eq!(browser.console(), [""; 0]);
            write_pictures(&browser).await;
        });
    }

    #[test]
    fn a_removal_that_is_held_is_explained_and_the_top_names_the_cause() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "page-held").await;
            let group = s.web(2).await;
            let headgate = s.headgate().await;
            s.wait_registered(&group, "web", 2, 8080).await;
            let browser = opened(&headgate).await;
            browser.wait_text("#top", |text| text.starts_with("OK")).await;
            wait::until("both are healthy", || async {
                let states = s.aws.targets(&group.arn).await;
                if states.values().all(|state| state == "healthy") { Ok(()) } else { Err(states) }
            })
            .await;
            // Another port, on which nothing listens: current targets remain.
            let ports = json!([{ "name": "http", "port": 80, "targetPort": 8099 }]);
            let moves = json!({ "spec": { "ports": ports } });
            s.cluster.patch::<k8s_openapi::api::core::v1::Service>("web", &moves).await;
            browser.wait_text("#view", |text| text.contains("2 removals held")).await;
            browser.wait_text("#top", |text| text.starts_with("TargetUnhealthy")).await;
            // The filter for problems; a filter without matches; the link from a problem to its target group.
            browser.evaluate("document.querySelector('#problems').click()").await;
            browser.wait_text("#view", |text| text.contains(&group.name)).await;
            filter(&browser, "no such group").await;
            browser.wait_text("#view", |text| text.contains("Nothing matches the filter")).await;
            filter(&browser, "web").await;
            browser.wait_text("#view", |text| text.contains(&group.name)).await;
            browser.evaluate("document.querySelector('#top a').click()").await;
            let heading = format!("Target group {}", group.name);
            browser.wait_text("#view", |text| text.starts_with(&heading)).await;
            let pod = s.cluster.running("web").await.into_keys().next().unwrap();
            browser.evaluate(&format!("location.hash = '#/pod/{}/{pod}'", s.cluster.namespace)).await;
            let heading = format!("Pod {}/{pod}", s.cluster.namespace);
            let is_pod = |text: &str| text.starts_with(&heading) && text.contains("RemovalHeld");
            let said = browser.wait_text("#view", is_pod).await;
            assert!(said.contains("AddressChanged") && said.contains("DeregisterTargets"), "{said}");
            assert_eq!(browser.console(), [""; 0]);
            write_picture_of_status(&s, &headgate, &browser).await;
        });
    }

    #[test]
    fn whoever_reads_with_a_keyboard_a_phone_or_a_screen_reader_gets_it_too() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "page-access").await;
            let group = s.web(2).await;
            let headgate = s.headgate().await;
            s.wait_registered(&group, "web", 2, 8080).await;
            let browser = opened(&headgate).await;
            browser.wait_text("#view", |text| text.contains(&group.name)).await;
            // With Tab: first the link that skips to the content, then all others. Enter follows a link.
            let tab = json!({ "type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9 });
            let mut reached = Vec::new();
            for _ in 0..10 {
                browser.call("Input.dispatchKeyEvent", tab.clone()).await;
                let at = "document.activeElement.getAttribute('href') ?? document.activeElement.localName";
                reached.push(browser.evaluate(at).await.as_str().unwrap().to_owned());
            }
            let is_group = |at: &String| at.starts_with("#/group/");
            assert!(reached[0] == "#main" && reached.iter().any(is_group), "{reached:?}");
            let axe = browser::axe().await;
            let pod = s.cluster.running("web").await.into_keys().next().unwrap();
            let views = [
                ("#/".to_owned(), "Target groups by zone".to_owned()),
                (
                    format!("#/group/{}", group.arn.replace(':', "%3A").replace('/', "%2F")),
                    format!("Target group {}", group.name),
                ),
                (
                    format!("#/pod/{}/{pod}", s.cluster.namespace),
                    format!("Pod {}/{pod}", s.cluster.namespace),
                ),
                ("#/journal".to_owned(), "Journal".to_owned()),
            ];
            for (size, dark) in [(DESK, false), (DESK, true), (PHONE, true)] {
                browser.looks(size, dark).await;
                for (view, heading) in &views {
                    browser.evaluate(&format!("location.hash = {view:?}")).await;
                    browser.wait_text("#view h2", |text| text == heading).await;
                    let title = browser.evaluate("document.title").await;
                    assert_eq!(title, json!(format!("{heading} – Headgate")));
                    // A wide table scrolls, but the page does not.
                    let fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
                    assert_eq!(browser.evaluate(fits).await, json!(true), "{view} at {size:?}");
                    let Some(axe) = &axe else { continue };
                    // Injected with the protocol, because the page's policy blocks everything else.
                    browser.evaluate(&format!("{axe};true")).await;
                    let found = "axe.run().then((found) => found.violations.filter((it) => ['serious', 'critical'].includes(it.impact))\
                                 .map((it) => [it.id, it.nodes.map((node) => node.html).slice(0, 3)]))";
                    assert_eq!(browser.evaluate(found).await, json!([]), "{view} at {size:?}, dark: {dark}");
                }
            }
            assert_eq!(browser.console(), [""; 0]);
        });
    }
}
