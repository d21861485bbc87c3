//! STS on loopback for the web identity of a ServiceAccount, with a configurable answer.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse};
use k8s_openapi::jiff::Timestamp;
use tokio::{net::TcpListener, time::sleep};

/// The requested role.
pub const ROLE: &str = "arn:aws:iam::123456789012:role/headgate";

/// The answer to requests.
#[derive(Clone, Copy, Debug)]
pub enum Mood {
    /// Credentials with this lifetime, after this delay.
    Gives(Duration, Duration),
    /// It denies the request.
    Denies,
}

/// The STS server.
#[derive(Clone)]
pub struct Sts {
    address: SocketAddr,
    mood: Arc<Mutex<Mood>>,
    asked: Arc<AtomicUsize>,
}

impl Sts {
    /// Starts it.
    pub async fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sts = Self { address, mood: Arc::new(Mutex::new(mood)), asked: Arc::default() };
        let router = Router::new().fallback(answer).with_state(sts.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        sts
    }

    /// Changes the answer from now on.
    pub fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// The number of requests.
    pub fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    /// The environment of a program that uses this STS, with a token in a folder.
    pub fn environment(&self, folder: &Path) -> Vec<(&'static str, String)> {
        environment(&self.address.to_string(), folder)
    }
}

/// The environment of a program that uses an STS at this address, whether it exists or not.
pub fn environment(address: &str, folder: &Path) -> Vec<(&'static str, String)> {
    let token = folder.join("web-identity-token");
    std::fs::write(&token, "a token").unwrap();
    vec![
        ("AWS_ACCESS_KEY_ID", String::new()),
        ("AWS_SECRET_ACCESS_KEY", String::new()),
        ("AWS_ROLE_ARN", ROLE.into()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap().into()),
        ("AWS_ENDPOINT_URL_STS", format!("http://{address}")),
    ]
}

async fn answer(State(sts): State<Sts>) -> impl IntoResponse {
    sts.asked.fetch_add(1, SeqCst);
    let mood = *sts.mood.lock().unwrap();
    match mood {
        Mood::Gives(life, after) => {
            sleep(after).await;
            let ends = Timestamp::try_from(SystemTime::now() + life).unwrap();
            let given = format!(
                "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
                 <AssumeRoleWithWebIdentityResult><AssumedRoleUser><Arn>{ROLE}</Arn>\
                 <AssumedRoleId>A:headgate</AssumedRoleId></AssumedRoleUser>\
                 <Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
                 <SessionToken>token</SessionToken><Expiration>{ends:.0}</Expiration></Credentials>\
                 </AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>\
                 </AssumeRoleWithWebIdentityResponse>"
            );
            (StatusCode::OK, given)
        }
        Mood::Denies => {
            let denied = "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>\
                          <Type>Sender</Type><Code>AccessDenied</Code>\
                          <Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error>\
                          <RequestId>1</RequestId></ErrorResponse>";
            (StatusCode::FORBIDDEN, denied.to_owned())
        }
    }
}
