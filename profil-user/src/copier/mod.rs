//! stub
#![allow(missing_docs, reason = "stub")]
use crate::address_space::AddressSpace;
use crate::bins::Run;
use crate::sink::target::{AtLimit, BadBuffer, Loss, TargetBuffer, Width};
use tokio::sync::{mpsc, oneshot};
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(pub u64);
#[derive(Clone, Debug)]
pub struct BufferPlan {
    pub start: u64,
    pub nbins: u32,
    pub first_bin: u32,
    pub width: Width,
    pub at_limit: AtLimit,
}
pub struct LostClient {
    pub client: ClientId,
    pub loss: Loss,
}
pub type OpenError = BadBuffer;
pub struct Copiers(
    std::collections::HashMap<ClientId, Vec<(BufferPlan, TargetBuffer)>>,
    mpsc::UnboundedSender<LostClient>,
);
impl Copiers {
    pub fn new(lost: mpsc::UnboundedSender<LostClient>) -> Copiers {
        Copiers(Default::default(), lost)
    }
    pub fn open(
        &mut self,
        _uid: u32,
        client: ClientId,
        space: AddressSpace,
        buffers: Vec<BufferPlan>,
        done: impl FnOnce(Result<(), OpenError>) + Send + 'static,
    ) {
        let r: Result<Vec<_>, _> = buffers
            .into_iter()
            .map(|b| Ok((b.clone(), TargetBuffer::new(space.try_clone()?, b.start, b.nbins, b.width)?)))
            .collect();
        done(r.map(|v| {
            self.0.insert(client, v);
        }));
    }
    pub fn flush(&mut self, client: ClientId, runs: Vec<Run>, done: Option<oneshot::Sender<()>>) {
        for (p, b) in self.0.get(&client).into_iter().flatten() {
            let runs: Vec<Run> = runs
                .iter()
                .filter(|r| r.first >= p.first_bin && r.first < p.first_bin + p.nbins)
                .map(|r| Run { first: r.first - p.first_bin, added: r.added.clone() })
                .collect();
            if let (_, Some(loss)) = b.add(&runs) {
                let _ = self.1.send(LostClient { client, loss });
            }
        }
        if let Some(d) = done {
            let _ = d.send(());
        }
    }
    pub fn close(&mut self, client: ClientId) {
        self.0.remove(&client);
    }
}
