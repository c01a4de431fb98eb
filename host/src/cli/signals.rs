//! Ctrl-C, the request to terminate and the end of the terminal, one after the other.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// All of them. From its creation on none is missed, and none ends the process by itself.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// # Errors
    /// The system does not let itself be listened to.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next of them, by name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            Some(()) = self.interrupt.recv() => "SIGINT",
            Some(()) = self.terminate.recv() => "SIGTERM",
            Some(()) = self.hang_up.recv() => "SIGHUP",
            else => std::future::pending().await,
        }
    }
}
