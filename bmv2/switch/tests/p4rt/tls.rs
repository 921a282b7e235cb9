//! P4Runtime over TLS, with certificates made here.

use std::sync::atomic::{AtomicU64, Ordering};

use p4runtime_client::{Client, ConnectOptions, Error};
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use softswitch::p4rt::{Mode, Tls, TlsError};

use crate::support::*;

type Ca = CertifiedIssuer<'static, KeyPair>;

/// A certificate authority.
fn authority(name: &str) -> Ca {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for a name, and its key; PEM.
fn issue(ca: &Ca, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, ca).unwrap();
    (certificate.pem(), key.serialize_pem())
}

async fn server(ca: &Ca, client_ca: Option<&Ca>) -> Bed {
    let (certificate, key) = issue(ca, "switch.test");
    let client_ca = client_ca.map(|ca| ca.pem());
    let client_ca = client_ca.as_ref().map(|pem| pem.as_bytes());
    let tls = Tls::new(certificate.as_bytes(), key.as_bytes(), client_ca).unwrap();
    Bed::start_with(Mode::Strict, Some(tls)).await
}

/// Connects, becomes primary and asks for the version of P4Runtime.
async fn connect(bed: &Bed, ca: &Ca, identity: Option<&Ca>) -> Result<String, Error> {
    // The switch may not have seen yet that the last controller is gone, whose
    // election id would still be taken.
    static CONTROLLERS: AtomicU64 = AtomicU64::new(1);
    let election_id = CONTROLLERS.fetch_add(1, Ordering::Relaxed);
    let identity = identity.map(|ca| {
        let (certificate, key) = issue(ca, "controller.test");
        (certificate.into_bytes(), key.into_bytes())
    });
    let options = ConnectOptions {
        tls: Some(p4runtime_client::Tls {
            identity,
            name: Some("switch.test".into()),
            ..p4runtime_client::Tls::new(ca.pem())
        }),
        ..ConnectOptions::new(&bed.address, DEVICE, election_id.into())
    };
    let (client, _events) = Client::connect_with(options).await?;
    Ok(client.capabilities().await?.p4runtime_api_version)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_trusts_the_right_ca_is_served() {
    let (ca, other) = (authority("a"), authority("b"));
    let bed = server(&ca, None).await;
    let version = connect(&bed, &ca, None).await.unwrap();
    assert_eq!(version, p4runtime_proto::API_VERSION);
    // A certificate that nobody asked for does no harm.
    connect(&bed, &ca, Some(&other)).await.unwrap();
    let error = connect(&bed, &other, None).await.unwrap_err();
    assert!(
        error.to_string().contains("UnknownIssuer"),
        "wrong CA: {error}"
    );
    // Neither is the name that of another switch.
    let options = ConnectOptions {
        tls: Some(p4runtime_client::Tls::new(ca.pem())),
        ..ConnectOptions::new(&bed.address, DEVICE, 1)
    };
    let error = Client::connect_with(options).await.unwrap_err();
    assert!(error.to_string().contains("not valid for name"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plaintext_is_refused() {
    let ca = authority("a");
    let bed = server(&ca, None).await;
    let address = format!("http://{}", bed.address);
    let answer = match P4RuntimeClient::connect(address).await {
        // The first call finds out.
        Ok(mut client) => client
            .capabilities(p4::CapabilitiesRequest::default())
            .await
            .map_err(|status| status.to_string()),
        Err(error) => Err(error.to_string()),
    };
    assert!(answer.is_err(), "{answer:?}");
    // Others are still served.
    connect(&bed, &ca, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn under_client_auth_a_certificate_of_the_ca_is_needed() {
    let [ca, clients, other] = ["a", "b", "c"].map(authority);
    let bed = server(&ca, Some(&clients)).await;
    connect(&bed, &ca, Some(&clients)).await.unwrap();
    // When the refusal arrives the client has finished its own handshake
    // (RFC 8446, section 4.4.2.4): it learns of it by an alert or by the end of
    // the connection.
    for identity in [None, Some(&other), Some(&ca)] {
        let answer = connect(&bed, &ca, identity).await;
        let refused = matches!(
            answer,
            Err(Error::Connect { .. } | Error::Arbitration { .. })
        );
        assert!(refused, "{answer:?}");
    }
    connect(&bed, &ca, Some(&clients)).await.unwrap();
}

#[test]
fn what_cannot_be_used_is_named() {
    let ca = authority("a");
    let (certificate, key) = issue(&ca, "switch.test");
    let (_, other) = issue(&ca, "switch.test");
    let make = |certificate: &str, key: &str, ca: Option<&str>| {
        Tls::new(
            certificate.as_bytes(),
            key.as_bytes(),
            ca.map(|pem| pem.as_bytes()),
        )
        .map(|_| ())
    };
    make(&certificate, &key, None).unwrap();
    // Certificate and key may stand in one file.
    let both = format!("{key}{certificate}");
    make(&both, &both, None).unwrap();
    type Kind = fn(&TlsError) -> bool;
    let cases: [(&str, &str, Option<&str>, Kind); 5] = [
        ("", &key, None, |e| matches!(e, TlsError::Certificate(_))),
        (&key, &key, None, |e| matches!(e, TlsError::Certificate(_))),
        (&certificate, &certificate, None, |e| {
            matches!(e, TlsError::Key(_))
        }),
        (&certificate, &key, Some(&key), |e| {
            matches!(e, TlsError::Authority(_))
        }),
        (&certificate, &other, None, |e| {
            matches!(e, TlsError::Unusable(_))
        }),
    ];
    for (number, (certificate, key, ca, kind)) in cases.into_iter().enumerate() {
        let error = make(certificate, key, ca).unwrap_err();
        assert!(kind(&error), "{number}: {error}");
    }
}
