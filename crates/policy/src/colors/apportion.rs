//! Divides colors by weights.

/// Gives `seats` one by one, each to the party with the largest quotient of its weight and one more
/// than its seats from this call (the D'Hondt method); the first among equals. Weights that are
/// negative or not finite count as zero; if all are zero, all parties weigh the same.
///
/// A party whose weight grows while the others' stay the same never loses a seat; with one seat
/// less in total, exactly one party has one seat less.
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

/// Gives all parties the same number of seats, but none more than its demand, until no seat is left
/// or every demand is met.
pub(super) fn up_to(seats: u32, demands: &[u32]) -> Vec<u32> {
    let mut given = vec![0; demands.len()];
    let mut left = seats;
    while left > 0 {
        let before = left;
        for (given, demand) in given.iter_mut().zip(demands) {
            if left > 0 && *given < *demand {
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
