// Creates an entity and reads it back with the client that oapi-codegen generates.
//
// Usage: round_trip http://127.0.0.1:8080/api TOKEN
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"roundtrip/api"
)

func main() {
	root, token := os.Args[1], os.Args[2]
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	client, err := api.NewClientWithResponses(root, api.WithRequestEditorFn(authorize))
	check(err)

	var letter api.Document
	check(letter.FromDocument0(map[string]any{"text": "from a generated client"}))
	ctx := context.Background()
	created, err := client.CreateWithResponse(ctx, api.CreateParamsFormatJSON, "letter", 1, nil, letter)
	check(err)
	if created.JSON200 == nil {
		log.Fatalf("%s: %s", created.Status(), created.Body)
	}
	id := (*created.JSON200)[0].EntityIds[0]
	read, err := client.GetOneEntityWithResponse(ctx, id.String(), nil)
	check(err)
	if read.JSON200 == nil {
		log.Fatalf("%s: %s", read.Status(), read.Body)
	}
	meta := read.JSON200.Meta
	told, err := json.Marshal(map[string]any{"id": meta.Id, "state": meta.State, "data": read.JSON200.Data})
	check(err)
	fmt.Println(string(told))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
