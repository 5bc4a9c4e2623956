// What an agent runs: net/http as it comes. It knows a placeholder for a key, and nothing of Oncegate. Called with the
// client's name; prints what it saw, as JSON.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
)

const (
	placeholder = "placeholder-of-the-agent"
	desk        = "https://desk.test/v1/"
)

type seen struct {
	Answer *string           `json:"answer"`
	Kind   *string           `json:"kind"`
	Texts  map[string]string `json:"texts"`
}

func failed(kind string, texts map[string]string) seen {
	return seen{Kind: &kind, Texts: texts}
}

func send(method, path, name string) seen {
	document, _ := json.Marshal(map[string]string{"reference": name})
	request, err := http.NewRequest(method, desk+path, bytes.NewReader(document))
	if err != nil {
		return failed("error", map[string]string{"err.Error()": err.Error()})
	}
	request.Header.Set("Authorization", "Bearer "+placeholder)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return failed("error", map[string]string{"err.Error()": err.Error()})
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return failed("error", map[string]string{"err.Error()": err.Error()})
	}
	if response.StatusCode >= 400 {
		texts := map[string]string{"response.Status": response.Status, "response.Body": string(body)}
		return failed("status "+strconv.Itoa(response.StatusCode), texts)
	}
	var made struct{ Id string }
	if err := json.Unmarshal(body, &made); err != nil {
		return failed("error", map[string]string{"err.Error()": err.Error()})
	}
	return seen{Answer: &made.Id, Texts: map[string]string{}}
}

func main() {
	name := os.Args[1]
	ticket := func(name string) seen { return send("POST", "tickets", name) }
	saw := map[string]seen{
		"success":       ticket(name + "-success"),
		"success again": ticket(name + "-success"),
		"lost":          ticket(name + "-lost"),
		"lost again":    ticket(name + "-lost"),
		"denied":        send("DELETE", "tickets/"+name+"-denied", name+"-denied"),
		"pending":       send("POST", "releases", name+"-pending"),
	}
	version := strings.TrimPrefix(runtime.Version(), "go")
	json.NewEncoder(os.Stdout).Encode(map[string]any{"version": version, "saw": saw})
}
