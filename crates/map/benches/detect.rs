//! Detection on simulated machines, computation alone.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use memweir_map::detect::{Options, detect};
use memweir_map::published;
use memweir_map::synthetic::{Noise, Synthetic};

/// The maps with the fewest and the most banks, and with the widest functions.
const MAPS: [&str; 4] = ["dramapp-pi4", "bpm-i7-860", "dramapp-orin-nano", "dramapp-9900x"];

fn detection(criterion: &mut Criterion) {
    let entries =
        published::parse("published_maps.json", published::SHIPPED).expect("our own data");
    let mut group = criterion.benchmark_group("detect");
    group.sample_size(10);
    for id in MAPS {
        let map = published::choose(entries.clone(), Some(id)).expect("our own data").map;
        for (name, noise) in Noise::ALL {
            group.bench_function(format!("{id}, {name}"), |bencher| {
                bencher.iter(|| {
                    let mut oracle = Synthetic::new(&map, noise, 1);
                    let options = Options { seed: 1, budget: Duration::from_secs(60) };
                    let detection = detect(&mut oracle, id, &options, &mut |_| {});
                    assert!(detection.verdict.is_ok(), "{id}, {name}: {:?}", detection.verdict);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, detection);
criterion_main!(benches);
