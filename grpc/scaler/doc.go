// Package scaler serves KEDA's external scaler: what WorkloadAutoscalers want, and the load that is
// forecast for them, to those who scale by a ScaledObject or by the HorizontalPodAutoscaler that it
// makes. It answers from the last decisions and changes nothing.
package scaler
