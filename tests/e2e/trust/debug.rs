//! Pods of the cluster cannot read Headgate's state.

use headgate_harness::{http, scenario::Scenario, shared_world::beside_others};

#[test]
fn at_the_address_of_the_probes_nobody_is_told_who_is_behind_which_load_balancer() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "debug").await;
        // The last value of a flag counts, like with a chart's extraArgs.
        let headgate = s.headgate_with(&["--admin-address=[::]:0"]).await;
        let (_, port) = headgate.admin().rsplit_once(':').unwrap();
        for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
            for (path, status) in [
                ("/debug/bindings", 404),
                ("/debug/explain?namespace=a&pod=b", 404),
                ("/debug/leader", 404),
                ("/livez", 200),
                ("/metrics", 200),
            ] {
                let (is, said) = http::request("GET", &address, path, None).await.unwrap();
                assert_eq!(is, status, "{address}{path}: {said}");
            }
        }
        assert!(headgate.debug().starts_with("127.0.0.1:"), "{}", headgate.debug());
        headgate.probe("/debug/bindings").await.unwrap();
        let (status, _) = http::request("GET", headgate.debug(), "/metrics", None).await.unwrap();
        assert_eq!(status, 404);
    });
}
