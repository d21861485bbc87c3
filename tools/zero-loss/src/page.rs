//! `docs/zero-loss.md`, made from the report.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::{
    play::{MARGIN, RATE, TIMEOUT},
    profile::Profile,
    report::{Report, Row},
    scenario::{About, Scenario},
    stage::{REPLICAS, replicas::LEASE, workload::HEALTH_INTERVAL},
    tables,
};

/// What the page says about where it was measured.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// Cores, memory, system.
    pub machine: String,
    /// The version of Kubernetes.
    pub kubernetes: String,
}

impl Circumstances {
    /// Those of this machine.
    pub fn here() -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let line = |path: &str, begins: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.lines().find_map(|line| line.strip_prefix(begins).map(str::to_owned)).unwrap_or_default()
        };
        let memory = line("/proc/meminfo", "MemTotal:");
        let kib: u64 = memory.trim().trim_end_matches("kB").trim().parse().unwrap_or_default();
        let system = line("/etc/os-release", "PRETTY_NAME=");
        Self {
            machine: format!("{cores} cores, {} GiB, {}", kib.div_ceil(1 << 20), system.trim_matches('"')),
            kubernetes: localstack_world::Minor::default().version().to_owned(),
        }
    }
}

const DEFINITION: &str = "\
## What is counted
A load generator starts requests at fixed times, whatever became of the others, and accounts for every one of them \
([localstack/load](../localstack/load/README.md)).
- **offered**: a request that was started. The load goes on for the whole scenario, until the last pod that had to go \
is gone, its hold included, and the load balancer is quiet again.
- **lost**: its client could not connect, or got no complete and right answer in time, whatever the reason: refused, \
reset, cut off, too late, any status but 200, also those that the load balancer itself makes (502, 503, 504), no \
address.
- **retried**: a *kept* connection had ended before any byte of the answer, and the one retry, on a new connection, \
was right within the same time. Every HTTP client does that by itself for such requests.
- **new connections**: clients that make one for each request. **keep-alive**: clients that use the connection that \
was idle for the shortest time. Both resolve the load balancer's name when its TTL is over. **pinned**: a client that \
makes a new connection for each request to the addresses that it resolved at the beginning, as some runtimes do. All \
run at once, and take turns: three, three and one.
- **control**: the same scenario with the same settings, the same load and Headgate as well, but pods without gate and \
hold: registered when they have an IP, deregistered when they are deleted, and nothing else. It must lose some, or the \
cell would show nothing. It is over sooner, so it is offered less. Cells that differ from another one only in the load \
balancer or in what happens to Headgate have none (–).
- **margin used**: the longest time from a pod's deletion until AWS had answered its DeregisterTargets. The hold is \
the load balancer's bound and a margin for this.
- **held too short**: pods that ended before the load balancer had stopped sending to them, as Headgate itself counts \
(`headgate_holds_too_short_total`; of a replica that is killed, what it had counted is gone). It counts no pod that it had \
not yet seen healthy, so a control, whose pods wait for nobody, may count fewer than went.
";

/// The page.
pub fn page(report: &Report, circumstances: &Circumstances) -> String {
    let Circumstances { machine, kubernetes } = circumstances;
    let commits: BTreeSet<&str> = report.rows.iter().map(|row| &*row.commit).collect();
    let commits = commits.into_iter().collect::<Vec<_>>().join(", ");
    let mut text = String::from(
        "# Zero loss\n\nMade by `make zero-loss`; not written by hand. Which departures of pods lose no request, and \
         what the same departures lose without Headgate's readiness gate and hold.\n\n",
    );
    text.push_str("## What is promised\n| scenario | what is done | promised | why |\n|---|---|---|---|\n");
    for scenario in Scenario::ALL {
        let About { name, is, why } = scenario.about();
        let promised = match Profile::ALL.map(|profile| scenario.is_promised(profile)) {
            [false, false, false] => "no",
            [true, true, true] => "nothing is lost",
            _ => "behind an ALB",
        };
        let _ = writeln!(text, "| {name} | {is} | {promised} | {why} |");
    }
    let _ = write!(
        text,
        "\nNothing is promised while calls to AWS are refused for longer than the hold's margin, nor behind a load \
         balancer that is slower than the hold is long: in the row with `auto` on `slow-nlb` the hold of `auto`, 150 s, \
         meets a load balancer that goes on sending for 180 s. It must lose, and Headgate must count it. Headgate is told \
         this bound (`--nlb-propagation-bound=180s`); at its default, 120 s, it would not have known.\n\n{DEFINITION}\n"
    );
    let _ = write!(text, "## The table\n{}\n", tables::all(report));
    let complaints = report.complaints();
    if complaints.is_empty() {
        text.push_str(
            "Every promise was kept, no pod of a promised row was held too short, every control lost requests, and \
             what was too short was seen to be. Where nothing is promised, requests were lost for no longer than the \
             load balancer's bound and the hold's margin.\n",
        );
    } else {
        text.push_str("**Not as it should be:**\n");
        for complaint in complaints {
            let _ = writeln!(text, "- {complaint}");
        }
    }
    text.push_str(&how_sure(report));
    let _ = write!(
        text,
        "\n## What nobody can promise\nAll clients together. **lost for**: from the first lost request to the last one; **at \
         most**: the load balancer's bound and the hold's margin.\n\n{}",
        tables::not_promised(report)
    );
    let _ = write!(
        text,
        "\n## When one set of pods takes the place of another\nFrom the stand-in's trace, each change of a target's \
         state.\n\n{}",
        tables::swaps(report)
    );
    let _ = write!(
        text,
        "\n## How long drains took, and why\nUntil the last `kubectl drain` had ended, or, for Karpenter, the last pod was \
         gone: an eviction is granted, then the pod is held. The words are Headgate's answers \
         (`headgate_eviction_requests_total`), and `PodDisruptionBudget` where Kubernetes said no itself; a pod that was \
         asked for several times may have had several.\n\n{}",
        tables::drains(report)
    );
    let [behind, offered] = [|row: &Row| row.behind, |row: &Row| row.offered]
        .map(|count| report.rows.iter().map(count).sum::<u64>());
    let [duration, deadline, retry] = LEASE;
    let _ = write!(
        text,
        "\n## How it was played\n\
         - Headgate of {commits}, on {machine}; Kubernetes {kubernetes}; a debug build, everything on this one machine.\n\
         - The load balancers are the local stand-in's ([localstack/elbv2](../localstack/elbv2/README.md)) with the \
         named profile, throttling and API latency included, and cross-zone load balancing unless it is said to be off. How late AWS's are was \
         never measured by us; the profile follows what others have published.\n\
         - Two nodes in each of two zones. Real ones are kubelets with containerd and runc, running Skipper, or \
         the ingress that is named, by its manifest of [docs/ingresses](ingresses.md) with an image made here \
         ([localstack/nodes](../localstack/nodes/README.md)); simulated ones \
         [do what those were seen to do](../localstack/kubelet/README.md). Two replicas of Headgate run beside them as processes, \
         not as pods.\n\
         - {REPLICAS} pods, of a DaemonSet one on each node, `maxSurge: 3` (1), `maxUnavailable: 0`, health checks every {HEALTH_INTERVAL} s of AWS's, \
         {RATE} requests a second, {} s for each.\n\
         - The generator itself started {behind} of {offered} requests more than 50 ms late, because the machine was busy; \
         they count as any other.\n\
         - Pods get gate and hold from Headgate's webhook, by the label `headgate.dev/inject: \"true\"`. The hold is \
         written on the Service: the load balancer's bound at the time scale, rounded up, and a margin of {MARGIN} s. \
         Headgate is told that bound (`--alb-propagation-bound`, `--nlb-propagation-bound`). \
         The Lease is shorter than the margin, as Headgate's default Lease (15 s) is shorter than its default margin \
         (25 s): {duration}, renewed within {deadline}, tried every {retry}; in \
         `departures`, where no leader is killed, the default one.\n\n\
         | load balancer | real seconds per AWS second | hold |\n|---|---:|---:|\n",
        TIMEOUT.as_secs(),
    );
    let held: BTreeSet<_> = report
        .rows
        .iter()
        .filter(|row| row.hold_seconds > 0)
        .map(|row| (&row.profile, row.hold_seconds, row.time_scale.to_string()))
        .collect();
    for (profile, hold, time_scale) in held {
        let _ = writeln!(text, "| {profile} | {time_scale} | {hold} s |");
    }
    text.push_str(
        "\nAgain: `make zero-loss` (root, for real nodes), `make zero-loss ONLY=rolling-update,typical-nlb`, \
         `make zero-loss RESUME=1` for what is missing in `target/zero-loss/report.json`, \
         `make zero-loss NODES=simulated` without root: all of it on simulated nodes.\n",
    );
    text
}

/// What follows from the departures of the promised rows for one departure.
#[allow(clippy::cast_precision_loss)] // some millions
fn how_sure(report: &Report) -> String {
    let promised = || report.rows.iter().filter(|row| row.promised);
    let sum = |count: fn(&Row) -> u64| promised().map(count).sum::<u64>();
    let cells: BTreeMap<String, u64> = promised().map(|row| (row.cell(), row.departures)).collect();
    let (departures, exposed, lost) =
        (cells.values().sum::<u64>(), sum(|row| row.exposed), sum(|row| row.lost));
    let mut text = format!(
        "\n## How sure that is\nIn the promised rows {departures} pods left under traffic. {exposed} requests were started within \
         twice the load balancer's lag after a departure, which is when one could have been sent to a pod that had ended; {lost} \
         were lost.\n"
    );
    if lost == 0 && departures > 0 && exposed > 0 {
        // The rule of three: where none of N failed, the share that fails is below 3/N with a confidence of 95 %.
        let of_departures = 3_000.0 / departures.max(3) as f64;
        let of_requests = 3_000_000.0 / exposed.max(3) as f64;
        let _ = writeln!(
            text,
            "\nSo with a confidence of 95 % fewer than {of_departures:.2} of 1,000 departures lose a request at this load, and \
             fewer than {of_requests:.1} of a million requests at such times are lost (the rule of three: none of N, so below \
             3/N). The load balancers are the stand-in's, so this is about Headgate, Kubernetes and the pods."
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cell::Cell, report::tests::rows};

    #[test]
    fn the_page_names_every_scenario_and_says_where_it_was_measured() {
        let circumstances = Circumstances { machine: "2 cores".into(), kubernetes: "v1.36.3".into() };
        let page = page(&Report::default(), &circumstances);
        for scenario in Scenario::ALL {
            assert!(page.contains(&format!("| {} | ", scenario.name())));
        }
        assert!(page.contains("on 2 cores; Kubernetes v1.36.3"));
    }

    #[test]
    fn how_sure_it_is_follows_from_the_departures_of_the_promised_rows() {
        let cell = Cell::chosen("rolling-update,typical-nlb,plain,cross-zone-on,covering").unwrap()[0];
        let mut report = Report { rows: rows(cell, [0, 0], [5, 5]) };
        let said = how_sure(&report);
        assert!(
            said.contains("6 pods left under traffic. 100 requests") && said.contains("500.00 of 1,000"),
            "{said}"
        );
        report.rows[0].lost = 1;
        assert!(!how_sure(&report).contains("confidence"), "something was lost");
        report.rows.iter_mut().for_each(|row| row.promised = false);
        assert!(how_sure(&report).contains("0 pods left"));
    }

    #[test]
    fn this_machine_can_be_described() {
        let here = Circumstances::here();
        assert!(here.machine.contains("cores, ") && !here.machine.contains(" 0 GiB"), "{here:?}");
    }
}
