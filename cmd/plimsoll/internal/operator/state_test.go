package operator

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// numbered is an object of a name, whose generation distinguishes its statuses.
func numbered(i, generation int) client.Object {
	name := fmt.Sprint("pool-", i)
	return &v1alpha1.VMPool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: int64(generation)}}
}

func manyOf(n, generation int) (all []client.Object) {
	for i := range n {
		all = append(all, numbered(i, generation))
	}
	return all
}

func TestStatusesAreWrittenSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w statuses
		var beside sync.WaitGroup
		began := time.Now()
		w.write(&beside, manyOf(3*writers-1, 0), func(o client.Object) error {
			time.Sleep(time.Second)
			if o.GetName() == "pool-9" {
				return errors.New("not this one")
			}
			return nil
		})
		if took := time.Since(began); took != 0 {
			t.Errorf("the step waited for %s", took)
		}
		beside.Wait()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
		if errs := fmt.Sprint(w.failures()); errs != "[VMPool pool-9: not this one]" {
			t.Error(errs)
		}
		if again := w.failures(); again != nil {
			t.Errorf("they are returned again: %v", again)
		}
	})
}

// Of an object whose status is written while others follow, the latest is written next, and those
// in between never. No two of one object are written at once, or the older might come last.
func TestTheLatestStatusIsWrittenLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w statuses
		var beside sync.WaitGroup
		var mu sync.Mutex
		written, writing := map[string][]int64{}, map[string]bool{}
		set := func(o client.Object) error {
			mu.Lock()
			if writing[o.GetName()] {
				t.Errorf("%s is written twice at once", o.GetName())
			}
			writing[o.GetName()] = true
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			written[o.GetName()], writing[o.GetName()] = append(written[o.GetName()], o.GetGeneration()), false
			return nil
		}
		const n = 3
		for step := range 4 {
			w.write(&beside, manyOf(n, step), set)
			time.Sleep(300 * time.Millisecond)
		}
		beside.Wait()
		for i := range n {
			if got := written[fmt.Sprint("pool-", i)]; !slices.Equal(got, []int64{0, 3}) {
				t.Errorf("%d: %v were written", i, got)
			}
		}
	})
}
