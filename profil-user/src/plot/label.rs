//! Where names stand above the bars: none over another, none over the line that leads to another.

/// A name that is to be placed: its width, and the middle of its bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// Horizontal position of what it names.
    pub x: f64,
    /// Width of the text.
    pub width: f64,
}

/// Where a name stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Row, 0 being next to the bars.
    pub row: usize,
    /// Left end of the text.
    pub left: f64,
}

/// Space between two names, and between a name and a line.
const GAP: f64 = 5.0;

/// Places names, the most important first, between `left` and `right`; `None` for one that has no room in any row.
pub fn place(wanted: &[Wanted], left: f64, right: f64, rows: usize) -> Vec<Option<Place>> {
    let mut placed: Vec<(Wanted, Place)> = Vec::new();
    let mut places = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let at = |row: usize| {
            // Over its bar if it can be; beside the line of another otherwise.
            let ends = [wanted.x - wanted.width / 2.0, wanted.x - GAP, wanted.x - wanted.width + GAP];
            ends.map(|end| Place { row, left: end.min(right - wanted.width).max(left) })
        };
        let fits = |place: &Place| {
            wanted.width <= right - left
                && placed.iter().all(|(other, there)| are_apart((wanted, place), (other, there)))
        };
        let place = (0..rows).flat_map(at).find(fits);
        placed.extend(place.map(|place| (*wanted, place)));
        places.push(place);
    }
    places
}

fn are_apart(one: (&Wanted, &Place), other: (&Wanted, &Place)) -> bool {
    let (upper, lower) = if one.1.row >= other.1.row { (one, other) } else { (other, one) };
    if upper.1.row == lower.1.row {
        let (left, right) = if upper.1.left <= lower.1.left { (upper, lower) } else { (lower, upper) };
        return left.1.left + left.0.width + GAP <= right.1.left;
    }
    // The line of the upper one passes the row of the lower one.
    let line = upper.0.x;
    line <= lower.1.left - GAP / 2.0 || line >= lower.1.left + lower.0.width + GAP / 2.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_alone_stands_over_its_bar_and_within_the_edges() {
        let placed = |x| place(&[Wanted { x, width: 40.0 }], 0.0, 100.0, 3)[0];
        assert_eq!(placed(50.0), Some(Place { row: 0, left: 30.0 }));
        assert_eq!(placed(1.0), Some(Place { row: 0, left: 0.0 }));
        assert_eq!(placed(99.0), Some(Place { row: 0, left: 60.0 }));
    }

    #[test]
    fn names_of_neighbours_go_up_and_what_has_no_room_is_left_out() {
        let places = place(&[Wanted { x: 50.0, width: 80.0 }; 10], 0.0, 100.0, 3);
        assert!(places[0].is_some() && places[9].is_none(), "{places:?}");
        assert_eq!(place(&[Wanted { x: 1.0, width: 101.0 }], 0.0, 100.0, 3), [None]);
    }

    proptest! {
        #[test]
        fn no_name_is_over_another_or_over_a_line(wanted in prop::collection::vec((0.0..1000.0f64, 10.0..200.0f64), 0..40)) {
            let wanted: Vec<_> = wanted.into_iter().map(|(x, width)| Wanted { x, width }).collect();
            let places = place(&wanted, 0.0, 1000.0, 5);
            let placed: Vec<_> = wanted.iter().zip(&places).filter_map(|(wanted, place)| Some((wanted, place.as_ref()?))).collect();
            prop_assert!(wanted.is_empty() || !placed.is_empty());
            for (index, (one, at)) in placed.iter().enumerate() {
                prop_assert!(at.left >= 0.0 && at.left + one.width <= 1000.0 + 1e-9);
                for (other, there) in &placed[index + 1..] {
                    let apart = at.left + one.width <= there.left || there.left + other.width <= at.left;
                    prop_assert!(at.row != there.row || apart);
                    let crosses = |line: f64, name: &Wanted, at: &Place| (at.left..at.left + name.width).contains(&line);
                    prop_assert!(at.row <= there.row || !crosses(one.x, other, there));
                    prop_assert!(there.row <= at.row || !crosses(other.x, one, at));
                }
            }
        }
    }
}
