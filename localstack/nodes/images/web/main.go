// Command web is a server in a pod that behaves as badly as it is asked to.
//
// It answers every request as the servers of the simulated kubelet do, and takes the same words:
//
//	PORTS          where it listens, such as "8080 8443" (8080)
//	ON_SIGTERM     close (default): listeners and idle connections at once, what is under way is finished
//	               drain: goes on for DRAIN_FOR, with Connection: close, and then closes
//	               ignore: goes on until SIGKILL
//	DRAIN_FOR      such as 10s (10s)
//	START_DELAY    how long it runs before its ports open
//	CRASH_AFTER    when it ends by itself with 137, after each of its starts
//	REQUEST_DELAY  how long each answer takes at the least
//	POD_NAME, POD_UID, POD_IP  what it says about itself
//
// POST /-/ready and /-/unready decide what GET /ready answers. /?delay-ms=N takes N milliseconds. What comes to a path
// below /-/note/ is printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var unready, draining atomic.Bool

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds | log.LUTC)
	told := make(chan os.Signal, 4)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	conduct := or(os.Getenv("ON_SIGTERM"), "close")
	drainFor := duration("DRAIN_FOR", 10*time.Second)
	requestDelay := duration("REQUEST_DELAY", 0)

	if after := duration("CRASH_AFTER", 0); after > 0 {
		time.AfterFunc(after, func() { os.Exit(137) })
	}
	if delay := duration("START_DELAY", 0); delay > 0 {
		select {
		case <-time.After(delay):
		case <-told:
			return
		}
	}
	var servers []*http.Server
	for _, port := range strings.Fields(or(os.Getenv("PORTS"), "8080")) {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			log.Fatalf("cannot listen: %v", err)
		}
		number, _ := strconv.Atoi(port)
		server := &http.Server{Handler: handler(number, requestDelay)}
		servers = append(servers, server)
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				log.Fatalf("port %s: %v", port, err)
			}
		}()
	}
	log.Printf("serving, on SIGTERM: %s", conduct)
	for range told {
		log.Printf("told to end")
		switch conduct {
		case "ignore":
			continue
		case "drain":
			draining.Store(true)
			time.Sleep(drainFor)
		}
		closeAll(servers)
		return
	}
}

// closeAll closes listeners and idle connections at once, and returns when what was under way is answered.
func closeAll(servers []*http.Server) {
	var closing sync.WaitGroup
	for _, server := range servers {
		closing.Go(func() { _ = server.Shutdown(context.Background()) })
	}
	closing.Wait()
}

func handler(port int, least time.Duration) http.Handler {
	name, uid, ip := os.Getenv("POD_NAME"), os.Getenv("POD_UID"), os.Getenv("POD_IP")
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		status := http.StatusOK
		switch {
		case request.URL.Path == "/-/ready" && request.Method == http.MethodPost:
			unready.Store(false)
		case request.URL.Path == "/-/unready" && request.Method == http.MethodPost:
			unready.Store(true)
		case strings.HasPrefix(request.URL.Path, "/-/note/"):
			log.Printf("note: %s", strings.TrimPrefix(request.URL.Path, "/-/note/"))
		case request.URL.Path == "/ready" && unready.Load():
			status = http.StatusServiceUnavailable
		}
		wanted, _ := strconv.Atoi(request.URL.Query().Get("delay-ms"))
		time.Sleep(max(least, time.Duration(wanted)*time.Millisecond))
		if draining.Load() {
			answer.Header().Set("Connection", "close")
		}
		answer.Header().Set("Content-Type", "application/json")
		answer.Header().Set("X-Pod", name)
		answer.WriteHeader(status)
		_ = json.NewEncoder(answer).Encode(map[string]any{
			"pod": name, "uid": uid, "ip": ip, "port": port, "path": request.URL.Path,
		})
	})
}

func duration(name string, otherwise time.Duration) time.Duration {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		log.Fatalf("%s=%q is no duration: write one such as 10s or 250ms", name, text)
	}
	return parsed
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
