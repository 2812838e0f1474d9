//! The connections that are open, and how many each user has.

use std::collections::HashMap;
use std::io;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};

use super::budget::Limits;
use super::conversation::{self, Order, Refusal};
use super::socket::Connection;
use crate::hush::Hush;

/// Conversations under way.
pub(super) struct Connections {
    limits: Limits,
    users: HashMap<u32, u32>,
    conversations: JoinSet<Result<(), Refusal>>,
    /// Whose each of them is.
    owners: HashMap<Id, u32>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Connections {
        Connections { limits, users: HashMap::new(), conversations: JoinSet::new(), owners: HashMap::new() }
    }

    /// Starts a conversation on a new connection, or asks to come back later when there are too many.
    pub(super) async fn welcome(&mut self, accepted: io::Result<Connection>, desk: &mpsc::Sender<Order>, hush: &Hush) {
        let connection = match accepted {
            Ok(connection) => connection,
            Err(error) => {
                hush.warn(format_args!("cannot accept a connection: {error}"));
                // Out of descriptors: those of conversations that end make room.
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                return;
            }
        };
        let uid = connection.peer().uid;
        let of_user = self.users.entry(uid).or_default();
        if *of_user >= self.limits.user_connections {
            hush.warn(format_args!("put off a connection of user {uid}, who has {of_user} already"));
            return connection.put_off();
        }
        if self.conversations.len() >= self.limits.connections as usize {
            let connections = self.conversations.len();
            hush.warn(format_args!("put off a connection of user {uid}: there are {connections} already"));
            return connection.put_off();
        }
        *of_user += 1;
        let desk = desk.clone();
        let conversation = self.conversations.spawn(conversation::hold(connection, desk));
        self.owners.insert(conversation.id(), uid);
    }

    /// The result of the next conversation that ends; `None` when there is none under way.
    pub(super) async fn next_ended(&mut self) -> Option<Result<(), Refusal>> {
        let (id, result) = match self.conversations.join_next_with_id().await? {
            Ok((id, result)) => (id, Ok(result)),
            Err(error) => (error.id(), Err(error)),
        };
        let uid = self.owners.remove(&id)?;
        if let Some(of_user) = self.users.get_mut(&uid) {
            *of_user -= 1;
            if *of_user == 0 {
                self.users.remove(&uid);
            }
        }
        // One that panicked has said so, and was answered by the end of its connection.
        Some(result.unwrap_or(Ok(())))
    }
}
