// Package rightsize looks at every clock.
package rightsize

import (
	"context"
	"time"
	wall "time"
)

var now = time.Now

// Clocks reads them.
func Clocks(ctx context.Context) {
	time.Sleep(time.Second)
	<-wall.After(0)
	_ = time.Since(now())
	_ = time.Until(now())
	_ = time.Tick(0)
	time.NewTimer(0).Stop()
	time.NewTicker(0).Stop()
	time.AfterFunc(0, nil)
	_, _ = context.WithTimeout(ctx, 0)
	{
		time := struct{ Now func() }{}
		time.Now()
	}
	_ = (time.Now)()
}
