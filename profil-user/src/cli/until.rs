//! Waiting for what may never come.

use std::time::Duration;

use crate::readiness::Readiness;

/// Returns when a time has passed; never if there is none.
pub async fn passed(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

/// Returns when a descriptor is readable; never if there is none.
pub async fn readable(descriptor: Option<&Readiness>) {
    match descriptor {
        Some(descriptor) => descriptor.wait().await,
        None => std::future::pending().await,
    }
}
