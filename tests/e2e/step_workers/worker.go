// A worker written from the worker protocol alone (spec/step-engine.md §13), with nothing but Go's standard library.
//
// Usage: go run worker.go http://127.0.0.1:8080
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	batch = 64
	tick  = 100 * time.Millisecond
)

type variables map[string]any

type job struct {
	ID               string    `json:"id"`
	JobType          string    `json:"jobType"`
	InstanceID       string    `json:"instanceId"`
	StepExecutionID  string    `json:"stepExecutionId"`
	RetriesRemaining int       `json:"retriesRemaining"`
	Variables        variables `json:"variables"`
	LockExpiresAt    time.Time `json:"lockExpiresAt"`
}

type nonRetryable struct{ reason string }

func (n nonRetryable) Error() string { return n.reason }

type handler func(job) (variables, error)

type worker struct {
	base, id string
	handlers map[string]handler
	running  sync.WaitGroup
	mutex    sync.Mutex
	attempts map[string]int
}

func main() {
	w := &worker{base: strings.TrimRight(os.Args[1], "/"), id: fmt.Sprintf("go-%d", os.Getpid()), attempts: map[string]int{}}
	w.handlers = map[string]handler{
		"chain-a": func(j job) (variables, error) { return trail(j, "a"), nil },
		"chain-b": w.second,
		"chain-c": third,
	}
	leave := make(chan os.Signal, 1)
	signal.Notify(leave, syscall.SIGINT, syscall.SIGTERM)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-leave:
			w.running.Wait()
			return
		case <-ticker.C:
			w.round()
		}
	}
}

func (w *worker) second(j job) (variables, error) {
	w.mutex.Lock()
	w.attempts[j.ID]++
	attempt := w.attempts[j.ID]
	w.mutex.Unlock()
	if attempt == 1 {
		return nil, errors.New("the first try always fails")
	}
	result := trail(j, "b")
	result["attempts"] = attempt
	return result, nil
}

func third(j job) (variables, error) {
	if j.Variables["doomed"] == true {
		return nil, nonRetryable{"there is no hope"}
	}
	return trail(j, "c"), nil
}

func trail(j job, step string) variables {
	been, _ := j.Variables["trail"].([]any)
	return variables{"trail": append(been, step)}
}

func (w *worker) round() {
	types := make([]string, 0, len(w.handlers))
	for jobType := range w.handlers {
		types = append(types, jobType)
	}
	var answer struct{ Jobs []job }
	err := w.post("/v1/jobs/poll", map[string]any{"workerId": w.id, "jobTypes": types, "maxJobs": batch}, &answer)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, found := range answer.Jobs {
		w.running.Add(1)
		go func(j job) {
			defer w.running.Done()
			w.do(j)
		}(found)
	}
}

func (w *worker) do(j job) {
	result, err := w.handlers[j.JobType](j)
	if err == nil {
		err = w.post("/v1/jobs/"+j.ID+"/complete", map[string]any{"workerId": w.id, "variables": result}, nil)
	}
	if err == nil {
		return
	}
	var hopeless nonRetryable
	report := map[string]any{"workerId": w.id, "errorMessage": err.Error(), "retryable": !errors.As(err, &hopeless)}
	if err := w.post("/v1/jobs/"+j.ID+"/fail", report, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (w *worker) post(path string, body, answer any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	response, err := http.Post(w.base+path, "application/json", bytes.NewReader(content))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != 200 && response.StatusCode != 204 {
		return fmt.Errorf("%s answered %d: %s", path, response.StatusCode, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
