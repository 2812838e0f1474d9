//! Orders that wait, by user.

use std::collections::{BTreeMap, VecDeque};

use super::conversation::Order;

/// Orders in the order in which they came, of each user for itself.
#[derive(Default)]
pub(super) struct Queue {
    users: BTreeMap<u32, VecDeque<Order>>,
}

impl Queue {
    pub(super) fn push(&mut self, order: Order) {
        self.users.entry(order.caller.uid).or_default().push_back(order);
    }

    /// The oldest order of each user.
    pub(super) fn next_round(&mut self) -> Vec<Order> {
        let round = self.users.values_mut().filter_map(VecDeque::pop_front).collect();
        self.users.retain(|_, orders| !orders.is_empty());
        round
    }

    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}
