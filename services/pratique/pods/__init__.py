"""Walks over Pods: containers, requests and limits, tolerations, QoS, volumes."""
