//! TLS by name, and work that is on a leash.

use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use wasmtime_wasi_http::Error;

use super::connect::{secure, trusting};
use super::leash::Leash;
use crate::sandbox::signs::Signs;
use crate::task::TermsDraft;
use crate::time::SystemClock;

/// Asks a host with a certificate for `api.example` as `name`, trusting that certificate or nobody's.
async fn ask(name: &str, trust: bool) -> Result<String, Error> {
    let certificate = rcgen::generate_simple_self_signed(vec!["api.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    if trust {
        roots.add(certificate.cert.der().clone()).unwrap();
    }
    let (near, far) = tokio::io::duplex(1 << 16);
    let serving = async move {
        if let Ok(mut stream) = TlsAcceptor::from(Arc::new(server)).accept(far).await {
            stream.write_all(b"hello").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    };
    let asking = async move {
        let mut stream = secure(near, name, trusting(roots).unwrap()).await?;
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        Ok(heard)
    };
    tokio::join!(asking, serving).0
}

#[tokio::test]
async fn a_host_is_believed_only_with_a_certificate_of_its_name() {
    assert_eq!(ask("api.example", true).await.unwrap(), "hello");
    assert!(matches!(ask("other.example", true).await, Err(Error::TlsCertificateError)));
    assert!(matches!(ask("api.example", false).await, Err(Error::TlsCertificateError)));
}

fn leash() -> Leash {
    let draft = TermsDraft { run_timeout: Some(std::time::Duration::from_secs(1)), ..TermsDraft::default() };
    let limits = draft.resolve(std::time::Duration::ZERO).unwrap().limits;
    Leash::new(Arc::new(Signs::new(Arc::new(SystemClock::default()), &limits, None)))
}

/// Says when it is dropped.
struct Thing(Arc<()>);

#[tokio::test]
async fn work_on_a_leash_is_gone_when_that_is_cut_whoever_holds_it() {
    let (leash, thing) = (leash(), Arc::new(()));
    let held = |thing: &Arc<()>| {
        let thing = Thing(Arc::clone(thing));
        leash.hold(async move {
            std::future::pending::<()>().await;
            drop(thing.0);
        })
    };
    let one = held(&thing);
    let task = tokio::spawn(held(&thing));
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&thing), 3);
    leash.cut();
    assert_eq!(Arc::strong_count(&thing), 1, "also what a task of the runtime polls");
    drop(held(&thing));
    assert_eq!(Arc::strong_count(&thing), 1, "and what comes too late");
    task.abort();
    drop(one);
}

#[tokio::test]
async fn work_on_a_leash_is_done_and_let_go() {
    let leash = leash();
    assert_eq!(leash.hold(async { 7 }).await, 7);
    let thing = Arc::new(());
    let kept = Thing(Arc::clone(&thing));
    drop(leash.hold(async move { drop(kept.0) }));
    assert_eq!(Arc::strong_count(&thing), 1, "a handle that is dropped drops its work");
}
