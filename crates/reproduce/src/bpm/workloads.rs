//! The 20 workloads: those that the text names, and random draws for the others.

use memweir_core::input::InputError;
use memweir_flow::workload::catalog::Catalog;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// The programs of a workload, by their names in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    /// 1 to 20, as in Fig. 4.
    pub(super) number: u32,
    pub(super) programs: Vec<String>,
}

const LIBQUANTUM: &str = "462.libquantum";
const MCF: &str = "429.mcf";

/// Workloads whose fairness worsens: all with mcf (section 5.1).
pub(super) const WITH_MCF: [u32; 4] = [13, 15, 16, 17];

/// Misses per 1,000 instructions that all programs of workload 1 exceed.
const HEAVY: f64 = 2.0;

/// Workloads 1 to 10 of 8 programs, 11 to 20 of 4.
///
/// # Errors
/// If the catalog does not have a program that the text names.
pub(super) fn workloads(names: &[String], seed: u64) -> Result<Vec<Workload>, InputError> {
    let catalog = Catalog::shipped();
    let mpki = |name: &String| catalog.find(name).map_or(0.0, |entry| entry.mpki.value);
    let heavy: Vec<String> = names.iter().filter(|name| mpki(name) > HEAVY).cloned().collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (1..=20)
        .map(|number| {
            let four_of = |rest: &[&str]| rest.iter().map(|name| (*name).to_owned()).collect();
            let programs: Vec<String> = match number {
                1 => draw(&[LIBQUANTUM], &heavy, 8, &mut random),
                2..=10 => draw(&[], names, 8, &mut random),
                11 => four_of(&[LIBQUANTUM, "403.gcc", "447.dealII", "444.namd"]),
                14 => four_of(&[LIBQUANTUM, "456.hmmer", "403.gcc", "444.namd"]),
                number if WITH_MCF.contains(&number) => draw(&[MCF], names, 4, &mut random),
                _ => {
                    // If another one had mcf, the text would name it with those that get worse.
                    let others: Vec<String> =
                        names.iter().filter(|name| *name != MCF).cloned().collect();
                    draw(&[], &others, 4, &mut random)
                }
            };
            if let Some(unknown) = programs.iter().find(|name| !names.contains(name)) {
                return Err(InputError::new("experiments/bpm", format!("no program `{unknown}`")));
            }
            Ok(Workload { number, programs })
        })
        .collect()
}

/// Draws `count` different programs, these first.
fn draw(first: &[&str], from: &[String], count: usize, random: &mut ChaCha8Rng) -> Vec<String> {
    let mut rest: Vec<String> =
        from.iter().filter(|name| !first.contains(&name.as_str())).cloned().collect();
    rest.shuffle(random);
    first.iter().map(|name| (*name).to_owned()).chain(rest).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_text_says_of_the_workloads_holds() {
        let names = super::super::programs::names();
        let all = workloads(&names, 7).unwrap();
        assert_eq!(all, workloads(&names, 7).unwrap());
        assert_ne!(all, workloads(&names, 8).unwrap());
        for workload in &all {
            let size = if workload.number <= 10 { 8 } else { 4 };
            let distinct: std::collections::BTreeSet<_> = workload.programs.iter().collect();
            assert_eq!((workload.programs.len(), distinct.len()), (size, size));
            if workload.number > 10 {
                let mcf = workload.programs.iter().any(|name| name == MCF);
                assert_eq!(mcf, WITH_MCF.contains(&workload.number));
            }
        }
        assert!(all[0].programs.iter().any(|name| name == LIBQUANTUM));
        assert_eq!(all[13].programs[1], "456.hmmer");
    }
}
