package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// full is a model of the same inputs and outputs as pose, with other weights: its next version.
const full = "pose_landmark_full"

// replace puts a version of the model in place, as one does: by renaming.
func replace(t *testing.T, dir, version string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(modelsDir(t), version+".tflite"))
	require.NoError(t, err)
	next := filepath.Join(dir, "next")
	require.NoError(t, os.WriteFile(next, content, 0o600))
	require.NoError(t, os.Rename(next, filepath.Join(dir, "pose.tflite")))
}

// post sends a request of a client of its own.
func post(client *http.Client, url string, body []byte) ([]byte, error) {
	response, err := client.Post(url, "", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return answer, err
}

// Clients ask all the time, while the model is replaced by its next version, by a file that is no model, and by the
// first version again. Every request is answered, as one of the two versions answers it. The times are printed.
func TestNothingIsDroppedWhileAModelIsReplacedUnderLoad(t *testing.T) {
	dir := t.TempDir()
	picture := raw(input(t, pose))
	for _, cache := range []string{filepath.Join(dir, "models.xpwc"), ""} {
		replace(t, dir, pose)
		s := start(t, cache, dir, "pose")
		url := s.url + "/models/pose"
		ask := func(client *http.Client) ([]byte, error) { return post(client, url+"/infer", picture) }
		first, err := ask(http.DefaultClient)
		require.NoError(t, err)
		replace(t, dir, full)
		_, err = post(http.DefaultClient, url, nil)
		require.NoError(t, err)
		second, err := ask(http.DefaultClient)
		require.NoError(t, err)
		require.NotEqual(t, first, second)

		for _, clients := range []int{1, 4, 16} {
			stop := make(chan struct{})
			var group sync.WaitGroup
			var mu sync.Mutex
			var took []time.Duration
			answers := map[string]int{}
			for range clients {
				group.Go(func() {
					client := &http.Client{Transport: &http.Transport{}}
					defer client.CloseIdleConnections()
					for ended := false; !ended; {
						select {
						case <-stop:
							ended = true // after one more
						default:
						}
						begin := time.Now()
						answer, err := ask(client)
						if err != nil {
							t.Error("dropped: ", err)
							return
						}
						mu.Lock()
						took = append(took, time.Since(begin))
						answers[string(answer)]++
						mu.Unlock()
					}
				})
			}
			for _, version := range []string{pose, full} {
				replace(t, dir, version)
				_, err := post(http.DefaultClient, url, nil)
				require.NoError(t, err)
				body, err := ask(http.DefaultClient)
				require.NoError(t, err)
				require.Equal(t, map[string][]byte{pose: first, full: second}[version], body, "it is in force")
				require.NoError(t, os.WriteFile(filepath.Join(dir, "next"), []byte("no model"), 0o600))
				require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "pose.tflite")))
				_, err = post(http.DefaultClient, url, nil)
				require.Error(t, err)
			}
			close(stop)
			group.Wait()
			require.Equal(t, len(took), answers[string(first)]+answers[string(second)], "no other answers")
			slices.Sort(took)
			t.Logf("cache %q, %2d clients, 4 reloads: %4d requests, p50 %v, p99 %v", filepath.Base(cache), clients,
				len(took), took[len(took)/2].Round(time.Microsecond), took[len(took)*99/100].Round(time.Microsecond))
		}
		s.stop()
	}
}

func TestRequestsUnderWayAreAnsweredBeforeItStops(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "models.xpwc"), modelsDir(t), pose)
	picture := raw(input(t, pose))
	reader, writer := io.Pipe()
	answered := make(chan error)
	go func() {
		request, err := http.NewRequest("POST", s.url+"/models/"+pose+"/infer", reader)
		if err != nil {
			answered <- err
			return
		}
		request.Header.Set("Expect", "100-continue") // the body is read when the service reads it
		client := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}
		response, err := client.Do(request)
		if err == nil {
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s", response.Status)
			}
		}
		answered <- err
	}()
	_, err := writer.Write(picture[:4]) // it is under way
	require.NoError(t, err)
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	for {
		if _, err := http.Get(s.url + "/healthz"); err != nil { // it takes no more
			break
		}
	}
	_, err = writer.Write(picture[4:])
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.NoError(t, <-answered)
	s.ended = true
	require.NoError(t, s.cmd.Wait(), s.stderr.String())
}
