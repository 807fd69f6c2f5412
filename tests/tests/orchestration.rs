//! The orchestration under simulation.

#[test]
fn first() {
    let first = std::env::var("RUNLOG_SIM_SEED").ok().and_then(|s| s.parse().ok());
    let seeds = match first {
        Some(seed) => seed..seed + 1,
        None => 0..std::env::var("N").ok().and_then(|s| s.parse().ok()).unwrap_or(200u64),
    };
    for seed in seeds {
        let got = std::panic::catch_unwind(|| runlog_tests::sim::run(seed));
        match got {
            Ok(Ok(o)) => {
                if first.is_some() {
                    println!("{o:?}")
                }
            }
            Ok(Err(e)) => println!("seed {seed}: {}", if first.is_some() { &e[..] } else { e.lines().next().unwrap() }),
            Err(_) => println!("seed {seed}: panic"),
        }
    }
}
