// Package nodescaler starts one.
package nodescaler

func start() {
	go func() {
		go start()
	}()
}
