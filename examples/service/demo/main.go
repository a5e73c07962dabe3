// Command demo starts the service twice on one cache file, cold and warm, and shows what it answers.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	pose  = "pose_landmark_lite"
	hand  = "hand_landmark_full"
	third = "pose_landmark_heavy"
)

// The bytes of an input, which all three models have one of: a black picture of 256 x 256 or 224 x 224 pixels.
var inputBytes = map[string]int{pose: 4 * 256 * 256 * 3, hand: 4 * 224 * 224 * 3, third: 4 * 256 * 256 * 3}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: demo SERVICE MODELS DIR\n"+
			"runs the program SERVICE on the .tflite files of MODELS, its cache in DIR")
		os.Exit(2)
	}
	if err := demo(os.Args[1], os.Args[2], filepath.Join(os.Args[3], "models.xpwc")); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(program, models, cache string) (err error) {
	if err := os.Remove(cache); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fmt.Printf("Cold: two models are packed into %s, and a third while they are served.\n\n", cache)
	s, err := start(program, "-addr", "localhost:0", "-cache", cache, "-models", models, pose, hand)
	if err != nil {
		return err
	}
	answers := map[string][]byte{}
	cold := func() error {
		for _, name := range []string{pose, hand} {
			if answers[name], err = s.infer(name, true); err != nil {
				return err
			}
		}
		served, slowest, err := s.serveWhile(pose, func() error {
			_, err := s.request(true, "POST", "/models/"+third, nil)
			return err
		})
		if err != nil {
			return err
		}
		fmt.Printf("meanwhile %d requests of %s were answered, the slowest in %d ms\n",
			served, pose, slowest.Milliseconds())
		answers[third], err = s.infer(third, true)
		return err
	}
	if err := errors.Join(cold(), s.stop()); err != nil {
		return err
	}

	fmt.Printf("\nWarm: all three are mapped.\n\n")
	s, err = start(program, "-addr", "localhost:0", "-cache", cache, "-models", models, pose, hand, third)
	if err != nil {
		return err
	}
	warm := func() error {
		for _, name := range []string{pose, hand, third} {
			answer, err := s.infer(name, true)
			if err != nil {
				return err
			}
			if !bytes.Equal(answer, answers[name]) {
				return fmt.Errorf("%s answers differently than before", name)
			}
		}
		figures, err := s.request(false, "GET", "/metrics", nil)
		if err != nil {
			return err
		}
		shown := []string{"xpwc_lookup_hits_total", "xpwc_packed_entries_total", "xpwc_file_written_bytes_total"}
		fmt.Printf("$ curl -s %s/metrics | grep -E '^(%s)'\n", s.url, strings.Join(shown, "|"))
		for line := range strings.Lines(string(figures)) {
			for _, name := range shown {
				if strings.HasPrefix(line, name) {
					fmt.Print(line)
				}
			}
		}
		return nil
	}
	if err := errors.Join(warm(), s.stop()); err != nil {
		return err
	}
	fmt.Println("\nThe answers of both starts are identical bit for bit.")
	return nil
}

// A service is the running program.
type service struct {
	cmd *exec.Cmd
	url string
}

// start returns when the service serves; what it prints goes along.
func start(program string, args ...string) (*service, error) {
	fmt.Printf("$ service %s\n", strings.Join(args, " "))
	s := &service{cmd: exec.Command(program, args...)}
	s.cmd.Stderr = os.Stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		fmt.Println(lines.Text())
		if url, ok := strings.CutPrefix(lines.Text(), "serving on "); ok {
			s.url = url
			return s, nil
		}
	}
	return nil, errors.Join(errors.New("it does not serve"), s.cmd.Wait())
}

func (s *service) stop() error {
	return errors.Join(s.cmd.Process.Signal(os.Interrupt), s.cmd.Wait())
}

// request sends one, and shows it and what comes of it if it is to be seen.
func (s *service) request(seen bool, method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	start := time.Now()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	if err != nil || !seen {
		return answer, err
	}
	if body == nil {
		fmt.Printf("$ curl -X %s %s%s\n%d bytes of JSON in %.1f ms\n", method, s.url, path, len(answer),
			time.Since(start).Seconds()*1000)
	} else {
		fmt.Printf("$ curl -X %s --data-binary @input.f32 %s%s\n%d bytes in %.1f ms\n",
			method, s.url, path, len(answer), time.Since(start).Seconds()*1000)
	}
	return answer, nil
}

func (s *service) infer(name string, seen bool) ([]byte, error) {
	return s.request(seen, "POST", "/models/"+name+"/infer", make([]byte, inputBytes[name]))
}

// serveWhile requests a model over and over until something is done.
func (s *service) serveWhile(served string, do func() error) (requests int, slowest time.Duration, err error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		select {
		case err := <-done:
			return requests, slowest, err
		default:
		}
		start := time.Now()
		if _, err := s.infer(served, false); err != nil {
			return 0, 0, errors.Join(err, <-done)
		}
		requests++
		slowest = max(slowest, time.Since(start))
	}
}
