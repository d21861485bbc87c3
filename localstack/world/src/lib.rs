//! Starts and stops a whole local world: Kubernetes, nodes, load balancers.
