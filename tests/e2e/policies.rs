//! A Service's policies for the registration of its pods.

use headgate_harness::{scenario::Scenario, shared_world::beside_others, wait};

#[test]
fn read_only_says_what_it_would_do() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "read-only").await;
        let group = s.web(1).await;
        let headgate = s.headgate_with(&["--read-only"]).await;
        s.cluster.wait_running("web", 1).await;
        wait::until("the plan is logged", || async {
            let logged = headgate.logged(|line| line["message"] == "would register, but is paused");
            if logged.is_empty() { Err(headgate.text()) } else { Ok(()) }
        })
        .await;
        assert_eq!(s.aws.calls("RegisterTargets", &group.name).await, []);
    });
}
