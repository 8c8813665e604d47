// Command linear reads a history of calls on timers by key and says whether it is linearizable.
//
//	linear HISTORY
//
// Each line of HISTORY is a call: {"client":0,"key":"k","kind":"put","value":3,"call":1,"return":2,"found":3}. Times are
// nanoseconds of one clock. A call without an answer has "return":0 and may take effect at any time, or never. "put" sets the
// register to the value, "delete" empties it and "found" says what it removed, "get" tells "found"; 0 is an empty register.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type call struct {
	Client int    `json:"client"`
	Key    string `json:"key"`
	Kind   string `json:"kind"`
	Value  int    `json:"value"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
	Found  int    `json:"found"`
}

// A register for each key; a call that was not answered fits any answer.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(call).Key
			byKey[key] = append(byKey[key], operation)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() interface{} { return 0 },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		made, found, isAnswered := input.(call), output.(call).Found, output.(call).Return != 0
		switch made.Kind {
		case "put":
			return true, made.Value
		case "delete":
			return !isAnswered || found == 0 == (state.(int) == 0), 0
		default:
			return !isAnswered || found == state.(int), state
		}
	},
	DescribeOperation: func(input, output interface{}) string {
		return fmt.Sprintf("%+v", output)
	},
}

func read(path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []porcupine.Operation
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var made call
		if err := json.Unmarshal(lines.Bytes(), &made); err != nil {
			return nil, err
		}
		end := made.Return
		if end == 0 {
			end = math.MaxInt64
		}
		history = append(history, porcupine.Operation{ClientId: made.Client, Input: made, Call: made.Call, Output: made, Return: end})
	}
	return history, nil
}

func main() {
	history, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "linear:", err)
		os.Exit(2)
	}
	result, _ := porcupine.CheckOperationsVerbose(model, history, 5*time.Minute)
	fmt.Println(result)
	if result != porcupine.Ok {
		os.Exit(1)
	}
}
