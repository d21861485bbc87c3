//! `make chaos`: faults during rolls under traffic, for as long as is asked. Exit code 1 if a request was lost, or AWS held
//! something else than is wanted. `--margin 0` is the control: it must lose.

#![allow(clippy::expect_used, clippy::unwrap_used)] // whatever cannot go on says so and ends

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use headgate_chaos::{
    plan::{MARGIN, Plan},
    report::{self, Row, Setting},
    round::{self, Traffic},
    stage::Stage,
};
use headgate_harness::shared_world::install_tls;
use localstack_world::{Facts, Options, World};

const FOLDER: &str = "target/chaos";
const REPORT: &str = "target/chaos/report.md";

#[tokio::main]
async fn main() -> ExitCode {
    let setting = match asked(std::env::args().skip(1)) {
        Ok(setting) => setting,
        Err(wrong) => {
            eprintln!("chaos: {wrong}\nusage: chaos --minutes N --seed S [--margin SECONDS]");
            return ExitCode::from(2);
        }
    };
    install_tls();
    std::fs::create_dir_all(FOLDER).expect("target/chaos can be made");
    let name = format!("chaos-{}", std::process::id()).parse().expect("a name");
    let options = Options { name, zones: 2, seed: setting.seed, ..Options::default() };
    let world = match World::start(options).await {
        Ok(world) => world,
        Err(error) => {
            eprintln!("chaos: the world did not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let facts = world.facts().clone();
    let played = tokio::spawn(async move { run(&facts, setting).await }).await;
    let ended = world.shutdown().await;
    match (played, ended) {
        (Ok(true), Ok(())) => ExitCode::SUCCESS,
        (Ok(_), Ok(())) => ExitCode::FAILURE,
        (Err(_), _) => {
            eprintln!("chaos: it could not go on; what came before is in {REPORT}");
            ExitCode::FAILURE
        }
        (_, Err(error)) => {
            eprintln!("chaos: the world did not end: {error}");
            ExitCode::FAILURE
        }
    }
}

fn asked(mut arguments: impl Iterator<Item = String>) -> Result<Setting, String> {
    let (mut minutes, mut seed, mut margin) = (None, None, u64::from(MARGIN));
    while let Some(argument) = arguments.next() {
        let number = arguments.next().and_then(|number| number.parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("expected a number after {argument}"))?;
        match argument.as_str() {
            "--minutes" => minutes = Some(number),
            "--seed" => seed = Some(number),
            "--margin" => margin = number,
            _ => return Err(format!("{argument} is not known")),
        }
    }
    let margin = u32::try_from(margin).map_err(|_| format!("{margin} s are too long a margin"))?;
    match (minutes, seed) {
        (Some(minutes), Some(seed)) if minutes > 0 => Ok(Setting { minutes, seed, margin }),
        _ => Err("expected minutes, at least one, and a seed".into()),
    }
}

/// Round after round until the minutes are over, or something is left wrong, from which no round can begin. Gives whether
/// all was as promised.
async fn run(facts: &Facts, setting: Setting) -> bool {
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
    print!("{}", report::HEAD);
    while Instant::now() < end && rows.last().is_none_or(|row| row.differs.is_empty()) {
        let strikes = plan.next_round();
        let (row, next) = round::play(&mut stage, rows.len() + 1, &strikes, traffic).await;
        traffic = next;
        println!("{}", row.line());
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
    let page = report::page(setting, &rows);
    println!("\n{page}\nThe same is in {REPORT}");
    report::is_good(&rows)
}

fn save(setting: Setting, rows: &[Row]) {
    std::fs::write(REPORT, report::page(setting, rows)).expect("the report can be written");
}
