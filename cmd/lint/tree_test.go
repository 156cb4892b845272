package lint

import (
	"os"
	"sync"
	"testing"
)

// The tests of this file check the project itself; planted_test.go checks the checks.

var load = sync.OnceValues(func() (*Tree, error) { return Load(os.DirFS("../..")) })

func project(t *testing.T) *Tree {
	t.Helper()
	tree, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 20 {
		t.Fatalf("found %d files, expected the whole project", len(tree.Files))
	}
	return tree
}

func report(t *testing.T, fs []Finding) {
	t.Helper()
	for _, f := range fs {
		if f.Note {
			t.Logf("note: %s", f)
		} else {
			t.Error(f)
		}
	}
}

func TestImportsGoOneWay(t *testing.T)              { report(t, ImportFindings(project(t))) }
func TestTimeChanceAndDiskAreInjected(t *testing.T) { report(t, CallFindings(project(t))) }
func TestFilesAndFunctionsAreShort(t *testing.T)    { report(t, LengthFindings(project(t))) }
func TestTextIsFinishedAndOurs(t *testing.T)        { report(t, TextFindings(project(t))) }
func TestPublicNamesAreDocumented(t *testing.T)     { report(t, DocFindings(project(t))) }
func TestDocumentsPointToWhatIsThere(t *testing.T)  { report(t, LinkFindings(project(t))) }
func TestExamplesAreComplete(t *testing.T)          { report(t, ExampleFindings(project(t))) }
