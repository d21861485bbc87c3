//! A local stand-in for AWS Elastic Load Balancing v2 that lags, drains and carries real traffic.
