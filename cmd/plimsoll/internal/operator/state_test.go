package operator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// slow is a cluster that takes a second for each status, and does not take one of them.
type slow struct {
	Cluster
	not string
}

func (s slow) SetStatus(_ context.Context, o client.Object) error {
	time.Sleep(time.Second)
	if o.GetName() == s.not {
		return errors.New("not this one")
	}
	return nil
}

func TestStatusesAreWrittenSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []statement
		for i := range 3*writers - 1 {
			all = append(all, statement{about: &v1alpha1.VMPool{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pool-", i)}}})
		}
		began := time.Now()
		errs := (&term{Config: Config{Cluster: slow{not: "pool-9"}}}).state(t.Context(), all)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %s", took)
		}
		for i, err := range errs {
			if (err != nil) != (i == 9) {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}
