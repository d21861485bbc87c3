//! Invalid requests: none may crash the stand-in, and none may leave anything behind.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::stand::{PATIENCE, Stand};

/// A deterministic random generator, so that a failure can be reproduced.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn body(dice: &mut Dice) -> Vec<u8> {
    let actions = ["RegisterTargets", "DescribeTargetHealth", "CreateListener", "AddTags", "Nonsense", ""];
    let action = actions[usize::try_from(dice.roll(6)).unwrap()];
    let mut body = format!("Action={action}&Version=2015-12-01").into_bytes();
    for _ in 0..dice.roll(8) {
        let piece = match dice.roll(7) {
            0 => b"&Targets.member.1.Id=%zz".to_vec(),
            1 => b"&Targets.member.99999999999.Port=-1".to_vec(),
            2 => [b"&".as_slice(), "a.".repeat(5000).as_bytes(), b"=1"].concat(),
            3 => b"&=&&==&TargetGroupArn".to_vec(),
            4 => (0..200).map(|_| u8::try_from(dice.roll(256)).unwrap()).collect(),
            5 => b"&Targets.member.0.Id=1&Targets=2&Targets.member=3".to_vec(),
            _ => b"&TargetGroupArn=arn:aws:elasticloadbalancing:::targetgroup/%00/%F0%9F%92%A9".to_vec(),
        };
        body.extend(piece);
    }
    body
}

/// Whether the service answers a valid call.
async fn is_well(stand: &Stand) {
    stand.aws.describe_target_groups().send().await.unwrap();
}

#[tokio::test]
async fn generated_nonsense_is_answered_with_an_error() {
    let stand = Stand::new().await;
    let mut dice = Dice(20_151_201);
    for _ in 0..1500 {
        let body = body(&mut dice);
        let mut stream = TcpStream::connect(stand.running.addresses().api).await.unwrap();
        let head = format!(
            "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        let mut answer = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer in time").unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.get(9..12).unwrap_or_default();
        assert!(matches!(status, "200" | "400"), "{answer}\n{:?}", String::from_utf8_lossy(&body));
    }
    is_well(&stand).await;
}

#[tokio::test]
async fn ten_megabytes_are_refused_without_an_end_of_the_service() {
    let stand = Stand::new().await;
    for _ in 0..3 {
        let mut stream = TcpStream::connect(stand.running.addresses().api).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 10 << 20);
        stream.write_all(head.as_bytes()).await.unwrap();
        let block = vec![b'a'; 1 << 20];
        for _ in 0..10 {
            // The stand-in may reject the request before all of it has been sent.
            if stream.write_all(&block).await.is_err() {
                break;
            }
        }
        let mut answer = vec![0; 64];
        if let Ok(length) = timeout(PATIENCE, stream.read(&mut answer)).await.unwrap() {
            assert!(
                length == 0 || answer.starts_with(b"HTTP/1.1 413"),
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
    }
    is_well(&stand).await;
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_thousand_connections_that_say_little_keep_nobody_out_and_are_not_kept() {
    let stand = Stand::new().await;
    let mut clients = Vec::new();
    for n in 0..1000 {
        let Ok(mut stream) = TcpStream::connect(stand.running.addresses().api).await else { break };
        match n % 4 {
            // Nothing, a part of a head, a part of a body, or a half-closed connection.
            0 => {}
            1 => drop(stream.write_all(b"POST / HT").await),
            2 => drop(stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nAct").await),
            _ => {
                drop(stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nAct").await);
                stream.shutdown().await.unwrap();
            }
        }
        clients.push(stream);
    }
    assert!(clients.len() > 400, "{} connections", clients.len());
    is_well(&stand).await;
    let before = open_files();
    let ends = clients.len();
    drop(clients);
    // Other tests of this process open files of their own, so the test only requires that most of both ends are closed.
    let deadline = Instant::now() + PATIENCE;
    while open_files() + ends * 3 / 2 > before {
        assert!(
            Instant::now() < deadline,
            "{} files are open, of {before} with {ends} clients",
            open_files()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    is_well(&stand).await;
}
