//! Dividing colors by weights.

/// Gives `seats` one by one, each to whoever has the largest weight over what it was given by this
/// call plus one (the method of D'Hondt); the first of equals. Weights that are negative or no
/// numbers count as zero; if all are zero, everybody weighs the same.
///
/// Whoever weighs more, others unchanged, is not given less; one seat less costs one party one seat.
pub(super) fn by_weight(seats: u32, weights: &[f64]) -> Vec<u32> {
    let mut given = vec![0; weights.len()];
    let sound = |weight: f64| if weight.is_finite() && weight > 0.0 { weight } else { 0.0 };
    let none = weights.iter().all(|weight| sound(*weight) == 0.0);
    for _ in 0..seats {
        let claim = |place: usize| {
            let weight = if none { 1.0 } else { sound(weights[place]) };
            weight / f64::from(given[place] + 1)
        };
        let places = 0..weights.len();
        let next =
            places.reduce(|best, place| if claim(place) > claim(best) { place } else { best });
        if let Some(next) = next {
            given[next] += 1;
        }
    }
    given
}

/// Gives everybody the same, but nobody more than its wish, until nothing of `seats` is left.
pub(super) fn up_to(seats: u32, wishes: &[u32]) -> Vec<u32> {
    let mut given = vec![0; wishes.len()];
    let mut left = seats;
    while left > 0 {
        let before = left;
        for (given, wish) in given.iter_mut().zip(wishes) {
            if left > 0 && *given < *wish {
                *given += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    given
}
