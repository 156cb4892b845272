package jobtest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/millrace-io/millrace/abi"
)

// workload is n records for the effects guest over keys of a seed: value, map and list state, large values,
// event timers set, replaced and deleted (by records and by timers), side outputs, errors returned and
// traps. Times rise but for a jitter of 50 ms.
func workload(seed uint64, n, keys int) []abi.Record {
	rng := rand.New(rand.NewPCG(seed, 7))
	out := make([]abi.Record, n)
	for i := range out {
		at := int64(1_000_000 + 7*i - rng.IntN(50))
		var cmds []string
		for range 1 + rng.IntN(3) {
			cmds = append(cmds, command(rng, i, at))
		}
		out[i] = Text(fmt.Sprintf("key-%04d", rng.IntN(keys)), at, strings.Join(cmds, ";"))
	}
	return out
}

func command(rng *rand.Rand, i int, at int64) string {
	switch k := rng.IntN(1000); {
	case k < 150:
		return fmt.Sprintf("value;set v%d", i)
	case k < 300:
		return fmt.Sprintf("put k%d %d;get k%d", rng.IntN(6), i, rng.IntN(6))
	case k < 340:
		return "scan"
	case k < 360:
		return fmt.Sprintf("del k%d", rng.IntN(6))
	case k < 365:
		return "empty"
	case k < 450:
		return fmt.Sprintf("append %d", i)
	case k < 470:
		return "list;unlist"
	case k < 540:
		return fmt.Sprintf("big %d;biglen", rng.IntN(1500))
	case k < 640:
		return fmt.Sprintf("timer %d t%d", at+int64(rng.IntN(3000)), rng.IntN(3))
	case k < 680:
		return fmt.Sprintf("timer %d do value", at+int64(rng.IntN(500)))
	case k < 700:
		return fmt.Sprintf("timer %d do timer %d again", at+int64(rng.IntN(300)), at+int64(rng.IntN(3000)))
	case k < 720:
		return fmt.Sprintf("untimer %d t%d", at+int64(rng.IntN(3000)), rng.IntN(3))
	case k < 780:
		return fmt.Sprintf("side s%d", i)
	case k < 800:
		return fmt.Sprintf("large %d", rng.IntN(3000))
	case k < 815:
		return "many 5"
	case k < 840:
		return "random"
	case k < 860:
		return "wm"
	case k < 875:
		return "tombstone"
	case k < 885:
		return fmt.Sprintf("set lost;put k1 lost;out lost;fail no %d", i)
	case k < 888:
		return "set lost;append lost;side lost;trap"
	case k < 900:
		return "header h v"
	default:
		return fmt.Sprintf("out o%d", i)
	}
}

// pipelineText is the pipeline of the workload.
func pipelineText(settings, module string, parallelism int) string {
	return fmt.Sprintf(`name: workload
%s
parallelism: %d
operators:
  - {id: in, source: generator, kind: counter, parallelism: 1}
  - id: logic
    process: {module: "@%s", function: effects}
    on_error: {policy: dead_letter, path: dead/}
  - {id: out, sink: file, path: out/, envelope: true}
  - {id: sides, sink: file, path: sides/, envelope: true, from: logic.side}
`, settings, parallelism, module)
}

// outputs is everything the workload's pipeline has committed, sorted by key. What differs between
// languages and parallelisms by its nature is taken out of the dead letters: module, stack, task.
func (w *World) outputs() string {
	var dead []string
	for _, l := range strings.Split(w.ByKey("dead/"), "\n") {
		dead = append(dead, normalDead.ReplaceAllString(l, ""))
	}
	return strings.Join([]string{w.ByKey("out/"), w.ByKey("sides/"), strings.Join(dead, "\n")}, "\n---\n")
}
