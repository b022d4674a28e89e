"""What a broker's load report says and when it is sent, by Pulsar's rules; pure."""
