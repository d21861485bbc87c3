//! `make chaos`: runs rollouts under traffic for a given time, with one fault after the other. No request may be lost. After
//! each round, the targets in AWS must be exactly those of the pods. With `MARGIN=0` it is the control run, which must lose
//! requests.
//!
//! ```text
//!  plan     which faults, when and for how long: random by a seed, each shorter than the spare time of the hold
//!  stage    one Deployment behind an NLB and one behind an ALB, with a target of another writer in each target group
//!  faults   how each fault starts and ends
//!  quiet    what must be true when nothing changes any more
//!  round    one round: traffic, rollouts, faults, checks, counts
//!  report   target/chaos/report.md
//! ```
//!
//! A new fault is a variant of [`plan::Fault`] and its code in `faults`.

mod faults;
pub mod plan;
mod quiet;
mod report;
mod round;
mod stage;

use std::time::{Duration, Instant};

use localstack_world::{Facts, Options, World};

use self::{
    plan::Plan,
    report::{Row, page},
    round::Traffic,
    stage::Stage,
};

pub use self::report::Setting;

const FOLDER: &str = "target/chaos";
const REPORT: &str = "target/chaos/report.md";

/// Plays rounds in their own local world. Returns whether all guarantees held.
///
/// # Errors The local world does not start or end, or a round could not continue.
pub async fn run(setting: Setting) -> Result<bool, Box<dyn std::error::Error>> {
    std::fs::create_dir_all(FOLDER)?;
    let name = format!("chaos-{}", std::process::id()).parse()?;
    let world = World::start(Options { name, zones: 2, seed: setting.seed, ..Options::default() }).await?;
    let facts = world.facts().clone();
    let played = tokio::spawn(async move { play(&facts, setting).await }).await;
    world.shutdown().await?;
    played.map_err(|_| format!("it could not go on; what came before is in {REPORT}").into())
}

/// Plays rounds until the time is over, or until an error remains, after which no round can begin.
async fn play(facts: &Facts, setting: Setting) -> bool {
    println!("Chaos: {} minutes, seed {}, margin {} s", setting.minutes, setting.seed, setting.margin);
    let mut rows: Vec<Row> = Vec::new();
    save(setting, &rows);
    let mut stage = Stage::set(facts, setting.margin).await;
    if let Err(differs) = round::begin(&stage).await {
        stage.strike().await;
        eprintln!("chaos: the first pods were not as they must be: {differs}");
        return false;
    }
    let mut plan = Plan::new(setting.seed);
    let end = Instant::now() + Duration::from_secs(60 * setting.minutes);
    let mut traffic = Traffic::start(&stage);
    while Instant::now() < end && rows.last().is_none_or(|row| row.differs.is_empty()) {
        let strikes = plan.next_round();
        let (row, next) = round::play(&mut stage, rows.len() + 1, &strikes, traffic).await;
        traffic = next;
        println!("{}", row.cells().join(" | "));
        eprint!("{}", row.complaints());
        if row.is_remarkable() {
            for (at, replica) in stage.replicas.iter().enumerate() {
                let path = format!("{FOLDER}/round-{}-replica-{at}.log", row.number);
                std::fs::write(path, replica.log()).expect("a log can be written");
            }
        }
        rows.push(row);
        save(setting, &rows);
    }
    drop(traffic);
    stage.strike().await;
    println!("\n{}\nThe same is in {REPORT}", page(setting, &rows));
    report::is_good(&rows)
}

fn save(setting: Setting, rows: &[Row]) {
    std::fs::write(REPORT, page(setting, rows)).expect("the report can be written");
}
