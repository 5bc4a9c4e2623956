//! How fast, by hand: `cargo test --release -p oncegate-store -- --ignored --nocapture speed`.

use std::time::Instant;

use oncegate_policy::limit::Period;

use crate::support::{Memory, NOON, answered, limit};

#[ignore = "a measurement, not a test"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn speed_of_governed_writes() {
    for callers in [1_u64, 16, 64] {
        let memory = Memory::new();
        memory.store.sync_limits(vec![limit("cap", Period::Day, i64::MAX)], NOON).await.unwrap();
        let each = 6_000 / callers;
        let mut news = Vec::new();
        for number in 0..callers {
            let mut own = Vec::new();
            for turn in 0..each {
                let mut new = memory.refund(&format!("pi_{number}_{turn}"), 1);
                new.can_read_back = false;
                new.request.body = vec![b'x'; 1_024];
                own.push(new);
            }
            news.push(own);
        }
        let begun = Instant::now();
        let mut running = Vec::new();
        for own in news {
            let store = memory.store.clone();
            running.push(tokio::spawn(async move {
                for new in own {
                    let admitted = store.admit(new, NOON).await.unwrap();
                    let oncegate_store::admit::Admitted::Granted { permit, .. } = admitted else {
                        panic!("refused")
                    };
                    store.record(permit.spend(), crate::support::seen(&answered(200)), NOON).await.unwrap();
                }
            }));
        }
        for run in running {
            run.await.unwrap();
        }
        let took = begun.elapsed();
        let writes = callers * each;
        let bytes = std::fs::metadata(memory.path()).unwrap().len();
        println!(
            "{callers} callers: {:.0} governed writes/s, {:.0} us each, {} bytes each in the file",
            writes as f64 / took.as_secs_f64(),
            took.as_micros() as f64 / writes as f64,
            bytes / writes
        );
    }
}
