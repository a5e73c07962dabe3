package htmlreport

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// A browser is a Chromium without a window, which is spoken to through two pipes in its DevTools protocol: JSON, and a
// zero byte after each message.
type browser struct {
	t        testing.TB
	requests *os.File
	replies  *bufio.Reader
	session  string
	id       int
	// Events of the page: the protocol's methods with their parameters.
	Requests, Complaints []string
}

type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// startBrowser starts one that is stopped when the test ends.
func startBrowser(t testing.TB) *browser {
	t.Helper()
	program := testkit.Program(t, "chromium")
	theirIn, ourOut, err := os.Pipe()
	require.NoError(t, err)
	ourIn, theirOut, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // descriptors 3 and 4
	require.NoError(t, cmd.Start())
	require.NoError(t, theirIn.Close())
	require.NoError(t, theirOut.Close())
	b := &browser{t: t, requests: ourOut, replies: bufio.NewReader(ourIn)}
	t.Cleanup(func() {
		b.session = ""
		b.send("Browser.close", nil)
		_ = cmd.Wait()
		_, _ = ourOut.Close(), ourIn.Close()
	})
	require.NoError(t, ourIn.SetReadDeadline(time.Now().Add(2*time.Minute)))
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) send(method string, params any) {
	b.t.Helper()
	b.id++
	if params == nil {
		params = struct{}{}
	}
	raw, err := json.Marshal(params)
	require.NoError(b.t, err)
	out, err := json.Marshal(message{ID: b.id, Method: method, Params: raw, SessionID: b.session})
	require.NoError(b.t, err)
	_, err = b.requests.Write(append(out, 0))
	require.NoError(b.t, err)
}

// receive returns the next message and records the page's events.
func (b *browser) receive() (m message) {
	b.t.Helper()
	raw, err := b.replies.ReadBytes(0)
	require.NoError(b.t, err, "the browser does not answer")
	require.NoError(b.t, json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &m))
	switch m.Method {
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		require.NoError(b.t, json.Unmarshal(m.Params, &sent))
		b.Requests = append(b.Requests, sent.Request.URL)
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		b.Complaints = append(b.Complaints, m.Method+string(m.Params))
	}
	return m
}

// call calls a method and waits for its result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.send(method, params)
	for id := b.id; ; {
		m := b.receive()
		if m.ID != id {
			continue
		}
		require.Nil(b.t, m.Error, "%s: %+v", method, m.Error)
		if result != nil {
			require.NoError(b.t, json.Unmarshal(m.Result, result))
		}
		return
	}
}

// open shows the file at a path, and returns when it is loaded.
func (b *browser) open(path string) {
	b.t.Helper()
	b.send("Page.navigate", map[string]any{"url": "file://" + path})
	for b.receive().Method != "Page.loadEventFired" {
	}
}

// eval returns the value of an expression on the page.
func eval[T any](b *browser, expression string) (value T) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate",
		map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	require.Nil(b.t, got.ExceptionDetails, "%s\n%s", expression, got.ExceptionDetails)
	if len(got.Result.Value) > 0 {
		require.NoError(b.t, json.Unmarshal(got.Result.Value, &value))
	}
	return value
}

// press presses a key.
func (b *browser) press(key string) {
	b.t.Helper()
	text := map[string]string{"Enter": "\r"}[key]
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "text": text}, nil)
	}
}

// show makes the window so wide, and the page light or dark.
func (b *browser) show(width, height int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
}

// picture returns a PNG of the window.
func (b *browser) picture() []byte {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", nil, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(b.t, err)
	return png
}

func (b *browser) String() string {
	return fmt.Sprintf("requests %q, complaints %q", b.Requests, b.Complaints)
}
