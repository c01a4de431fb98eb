//! `wasi:sockets/ip-name-lookup`: names that are granted for TCP, and of their addresses those that may be reached.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::vec::IntoIter;

use wasmtime::component::Resource;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use super::bindings::ip_name_lookup::{Host, HostResolveAddressStream};
use super::bindings::network::{ErrorCode, IpAddress, Network};
use super::names::NameError;
use super::{NetView, Outside};

type Answer = Result<IntoIter<IpAddr>, ErrorCode>;

/// The addresses of a name, as they come.
pub struct Found(State);

enum State {
    Asking(Pin<Box<dyn Future<Output = Answer> + Send>>),
    Answered(Answer),
}

impl Found {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<&mut Answer> {
        if let State::Asking(asking) = &mut self.0 {
            match asking.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(answer) => self.0 = State::Answered(answer),
            }
        }
        match &mut self.0 {
            State::Answered(answer) => Poll::Ready(answer),
            State::Asking(_) => Poll::Pending,
        }
    }
}

#[async_trait]
impl Pollable for Found {
    async fn ready(&mut self) {
        std::future::poll_fn(|cx| self.poll(cx).map(drop)).await;
    }
}

fn look_up(outside: &Arc<Outside>, name: String) -> Result<State, ErrorCode> {
    if let Ok(address) = name.parse::<IpAddr>() {
        let granted = outside.grants.tcp.iter().any(|grant| grant.host.opens(address));
        return if granted { Ok(State::Answered(Ok(vec![address].into_iter()))) } else { Err(ErrorCode::AccessDenied) };
    }
    if !outside.grants.tcp.iter().any(|grant| grant.host.meets_name(&name).is_some()) {
        return Err(ErrorCode::AccessDenied);
    }
    let socket = outside.open_socket().ok_or(ErrorCode::NewSocketLimit)?;
    let outside = Arc::clone(outside);
    Ok(State::Asking(Box::pin(async move {
        let found = Arc::clone(&outside.names).look_up(name.clone()).await;
        drop(socket);
        match found {
            Ok(found) => {
                let admitted = outside.admit(&name, found);
                if admitted.is_empty() { Err(ErrorCode::AccessDenied) } else { Ok(admitted.into_iter()) }
            }
            Err(NameError::Unknown) => Err(ErrorCode::NameUnresolvable),
            Err(NameError::Mute) => Err(ErrorCode::TemporaryResolverFailure),
            Err(NameError::Failed) => Err(ErrorCode::PermanentResolverFailure),
        }
    })))
}

impl Host for NetView<'_> {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> wasmtime::Result<Result<Resource<Found>, ErrorCode>> {
        self.table.get(&network)?;
        self.net.outside.signs.token.check()?;
        match look_up(&self.net.outside, name) {
            Ok(state) => {
                let mut found = Found(state);
                // Asks at once, so that whoever comes back later finds the answer.
                if found.poll(&mut Context::from_waker(Waker::noop())).is_ready()
                    && let State::Answered(Err(error)) = found.0
                {
                    return Ok(Err(error));
                }
                Ok(Ok(self.table.push(found)?))
            }
            Err(error) => Ok(Err(error)),
        }
    }
}

impl HostResolveAddressStream for NetView<'_> {
    fn resolve_next_address(
        &mut self,
        found: Resource<Found>,
    ) -> wasmtime::Result<Result<Option<IpAddress>, ErrorCode>> {
        self.net.outside.signs.token.check()?;
        Ok(match self.table.get_mut(&found)?.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Err(ErrorCode::WouldBlock),
            Poll::Ready(Ok(addresses)) => Ok(addresses.next().map(Into::into)),
            Poll::Ready(Err(error)) => Err(*error),
        })
    }

    fn subscribe(&mut self, found: Resource<Found>) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(self.table, found)
    }

    fn drop(&mut self, found: Resource<Found>) -> wasmtime::Result<()> {
        self.table.delete(found)?;
        Ok(())
    }
}
